package metatest

import (
	"fmt"
	"strings"

	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
)

// Source returns the next random choice of a run, which is below n. ok is false at the end of the run.
type Source func(n int) (choice int, ok bool)

// generator generates random commands. Many of them succeed, and many of them fail by a small mistake.
type generator struct {
	source Source
	ended  bool
	model  *Model
	time   posix.Time
	block  uint64
	once   bool // no block is used twice
}

func (g *generator) pick(n int) int {
	choice, ok := g.source(n)
	if !ok {
		g.ended = true
		return 0
	}
	return choice
}

// chance returns true with probability 1/n.
func (g *generator) chance(n int) bool { return g.pick(n) == n-1 }

// maxFile is the maximum size of the model's files. Offsets are usually multiples of fileStep, so that writes
// often end where other writes begin.
const (
	maxFile  = 24 << 10
	fileStep = 512
)

var names = []string{"a", "b", "c", "d", "e", "f", "remote"}

var oddNames = []string{".", "..", "", "a/b", "nul\x00", strings.Repeat("n", 255), strings.Repeat("n", 256)}

func (g *generator) name() string {
	if g.chance(24) {
		return oddNames[g.pick(len(oddNames))]
	}
	return names[g.pick(len(names))]
}

// ino draws an inode number: usually that of an existing inode of the wanted type.
func (g *generator) ino(wanted posix.Mode) posix.Ino {
	switch {
	case g.chance(40):
		return posix.MakeIno(g.model.partition+1, 1)
	case g.chance(40):
		return posix.MakeIno(g.model.partition, g.model.newest+7)
	}
	any := g.chance(10)
	start := uint64(g.pick(int(g.model.newest)))
	for i := range g.model.newest {
		ino := posix.MakeIno(g.model.partition, 1+(start+i)%g.model.newest)
		if n := g.model.nodes[ino]; n != nil && (any || wanted == 0 || n.Mode.Type() == wanted) {
			return ino
		}
	}
	return posix.MakeIno(g.model.partition, 1)
}

func (g *generator) dir() posix.Ino { return g.ino(posix.TypeDir) }

// offset draws an offset at or near a multiple of fileStep.
func (g *generator) offset() uint64 {
	o := uint64(g.pick(maxFile/fileStep)) * fileStep
	if g.chance(3) {
		o += uint64(g.pick(5))
	}
	return o
}

// command generates an update.
func (g *generator) command() *meta.Command {
	g.time += posix.Time(g.pick(3) - 1)
	c := &meta.Command{Time: g.time, Cred: posix.Cred{UID: uint32(g.pick(3)), GID: uint32(g.pick(3))}}
	switch op := g.pick(20); {
	case op < 5:
		g.mknod(c)
	case op < 6:
		c.Op, c.Ino, c.NewParent, c.NewName = meta.OpLink, g.ino(0), g.dir(), g.name()
	case op < 8:
		c.Op, c.Ino, c.Name = meta.OpUnlink, g.dir(), g.name()
	case op < 9:
		c.Op, c.Ino, c.Name = meta.OpRmdir, g.dir(), g.name()
	case op < 12:
		c.Op, c.Ino, c.Name, c.NewParent, c.NewName = meta.OpRename, g.dir(), g.name(), g.dir(), g.name()
		c.Flags = []uint32{0, 0, meta.RenameExchange, meta.RenameNoReplace, meta.RenameExchange | meta.RenameNoReplace}[g.pick(5)]
	case op < 13:
		g.setAttr(c)
	case op < 17:
		g.write(c)
	case op < 18:
		c.Op, c.Ino, c.Offset, c.Length = meta.OpFallocate, g.ino(posix.TypeRegular), g.offset(), g.offset()
		c.Flags = []uint32{0, meta.FallocateKeepSize, meta.FallocatePunch, meta.FallocateZero, meta.FallocateZero | meta.FallocateKeepSize, meta.FallocatePunch | meta.FallocateZero}[g.pick(6)]
		if g.chance(20) {
			c.Offset = posix.MaxSize - c.Length + 1
		}
	case op < 19:
		g.xattr(c)
	default:
		c.Op, c.Ino, c.Name = meta.OpRemoveXattr, g.ino(0), g.xattrName()
	}
	return c
}

func (g *generator) mknod(c *meta.Command) {
	kinds := []posix.Mode{
		0, posix.TypeRegular, posix.TypeRegular, posix.TypeRegular, posix.TypeDir, posix.TypeDir, posix.TypeDir,
		posix.TypeSymlink, posix.TypeFIFO, posix.TypeSocket, posix.TypeChar, posix.TypeBlock,
	}
	c.Op, c.Ino, c.Name = meta.OpMknod, g.dir(), g.name()
	c.Mode = kinds[g.pick(len(kinds))] | []posix.Mode{0o644, 0o755, 0o6711, 0o2770, 0o1777}[g.pick(5)]
	c.Flags = []uint32{0, meta.Exclusive, meta.Truncate, meta.Exclusive | meta.Truncate}[g.pick(4)]
	c.Rdev = uint32(g.pick(3))
	if c.Mode.Type() == posix.TypeSymlink {
		c.Data = []byte([]string{"target", "a/../b", strings.Repeat("t", 4095), strings.Repeat("t", 4096), "", "x\x00"}[g.pick(6)])
	}
}

func (g *generator) setAttr(c *meta.Command) {
	c.Op, c.Ino = meta.OpSetAttr, g.ino(posix.TypeRegular)
	for bit := meta.SetMode; bit <= meta.KillSetID; bit <<= 1 {
		if g.chance(4) {
			c.Set |= bit
		}
	}
	c.Attr = posix.Attr{
		Mode: posix.Mode(0o7755 - g.pick(0o100)), UID: uint32(g.pick(3)), GID: uint32(g.pick(3)), Size: g.offset(),
		Atime: posix.Time(g.pick(100)), Mtime: posix.Time(g.pick(100)), Ctime: posix.Time(g.pick(100)),
	}
	if g.chance(20) {
		c.Attr.Size = posix.MaxSize + 1
	}
}

func (g *generator) write(c *meta.Command) {
	c.Op, c.Ino, c.Offset = meta.OpWrite, g.ino(posix.TypeRegular), g.offset()
	if g.chance(3) {
		c.Flags = meta.Append
	} else if g.chance(40) {
		c.Offset = posix.MaxSize // one byte there would make the model hold all of the file
	}
	if g.chance(2) {
		for range 1 + g.pick(3) {
			k := g.newBlock()
			c.Blocks, c.Length = append(c.Blocks, k), c.Length+uint64(k.Length)
		}
		return
	}
	c.Data = []byte(fmt.Sprint("literal ", g.block, " "))
	c.Data = []byte(strings.Repeat(string(c.Data), meta.MaxLiteral/len(c.Data)))[:g.pick(fileStep*3)]
	c.Length = uint64(len(c.Data))
	g.block++
}

// writer is the session of all writes.
const writer = 1

// newBlock puts a block into the store, and returns it. Sometimes it returns an earlier block. If an earlier
// write has named this block, the machine must refuse the next write.
func (g *generator) newBlock() meta.Block {
	if !g.once && g.block > 0 && g.chance(10) {
		id := posix.MakeBlockID(g.model.partition, writer, uint64(g.pick(int(g.block))))
		if data := g.model.blocks[id]; data != nil {
			return meta.Block{ID: id, Length: uint32(len(data))}
		}
	}
	id := posix.MakeBlockID(g.model.partition, writer, g.block)
	g.block++
	data := make([]byte, 1+g.pick(fileStep*4))
	for i := range data {
		data[i] = byte(g.block) + byte(i)*3
	}
	g.model.blocks[id] = data
	return meta.Block{ID: id, Length: uint32(len(data))}
}

func (g *generator) xattrName() string {
	return []string{"user.a", "user.b", strings.Repeat("x", 255), "", strings.Repeat("x", 256), "user.\x00"}[g.pick(6)]
}

func (g *generator) xattr(c *meta.Command) {
	c.Op, c.Ino, c.Name = meta.OpSetXattr, g.ino(0), g.xattrName()
	c.Data = []byte(strings.Repeat("v", g.pick(4)*100))
	c.Flags = []uint32{0, 0, meta.XattrCreate, meta.XattrReplace}[g.pick(4)]
}

// query generates a query that Model.Query can answer.
func (g *generator) query() *meta.Command {
	c := &meta.Command{Ino: g.ino(0)}
	switch g.pick(6) {
	case 0:
		c.Op, c.Ino, c.Name = meta.OpLookup, g.dir(), g.name()
	case 1:
		c.Op = meta.OpGetAttr
	case 2:
		c.Op, c.Ino = meta.OpReadlink, g.ino(posix.TypeSymlink)
	case 3:
		c.Op, c.Name = meta.OpGetXattr, g.xattrName()
	case 4:
		c.Op = meta.OpListXattr
	case 5:
		c.Op, c.Ino = meta.OpStatFS, 0
	}
	return c
}
