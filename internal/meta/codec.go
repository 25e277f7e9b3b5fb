package meta

import (
	"fmt"
	"slices"

	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/varint"
)

// Append appends the encoding of c.
func (c *Command) Append(b []byte) []byte {
	b = append(b, byte(c.Op))
	b = varint.AppendUint(b, c.Cred.UID)
	b = varint.AppendUint(b, c.Cred.GID)
	b = varint.AppendInt(b, int64(c.Time))
	b = varint.AppendUint(b, c.Ino)
	b = varint.AppendBytes(b, c.Name)
	b = varint.AppendUint(b, c.NewParent)
	b = varint.AppendBytes(b, c.NewName)
	b = varint.AppendUint(b, c.Mode)
	b = varint.AppendUint(b, c.Rdev)
	b = varint.AppendUint(b, c.Flags)
	b = varint.AppendUint(b, c.Set)
	if c.Set != 0 {
		b = appendAttr(b, &c.Attr)
	}
	b = varint.AppendUint(b, c.Offset)
	b = varint.AppendUint(b, c.Length)
	b = varint.AppendBytes(b, c.Data)
	b = varint.AppendUint(b, uint64(len(c.Blocks)))
	for _, k := range c.Blocks {
		b = append(b, k.ID[:]...)
		b = varint.AppendUint(b, k.Length)
	}
	if c.isPlain() {
		return b
	}
	b = varint.AppendUint(b, c.Child)
	b = varint.AppendUint(b, c.NewChild)
	b = varint.AppendUint(b, c.Target)
	b = appendInos(b, c.Chain)
	b = appendInos(b, c.Back)
	b = varint.AppendUint(b, c.Owner)
	return varint.AppendUint(b, c.PID)
}

// isPlain reports whether all fields are unset that only some operations use.
func (c *Command) isPlain() bool {
	return c.Child == 0 && c.NewChild == 0 && c.Target == 0 && c.Owner == 0 && c.PID == 0 && len(c.Chain) == 0 && len(c.Back) == 0
}

func appendInos(b []byte, inos []posix.Ino) []byte {
	b = varint.AppendUint(b, uint64(len(inos)))
	for _, i := range inos {
		b = varint.AppendUint(b, i)
	}
	return b
}

func readInos(r *varint.Reader) (inos []posix.Ino) {
	for n := r.Count(); n > 0 && r.Err() == nil; n-- {
		inos = append(inos, posix.Ino(r.Uint64()))
	}
	return inos
}

// DecodeCommand decodes a command. The slices of the result alias b.
func DecodeCommand(b []byte) (Command, error) {
	r := varint.NewReader(b)
	c := Command{
		Op:        Op(r.Uint8()),
		Cred:      posix.Cred{UID: r.Uint32(), GID: r.Uint32()},
		Time:      posix.Time(r.Int()),
		Ino:       posix.Ino(r.Uint64()),
		Name:      r.String(),
		NewParent: posix.Ino(r.Uint64()),
		NewName:   r.String(),
		Mode:      posix.Mode(r.Uint32()),
		Rdev:      r.Uint32(),
		Flags:     r.Uint32(),
		Set:       r.Uint32(),
	}
	if c.Set != 0 {
		c.Attr = readAttr(r)
	}
	c.Offset, c.Length, c.Data = r.Uint64(), r.Uint64(), r.Bytes()
	if n := r.Count(); n > 0 {
		c.Blocks = make([]Block, 0, min(n, MaxIDs))
		for range n {
			var k Block
			r.Fixed(k.ID[:])
			k.Length = r.Uint32()
			c.Blocks = append(c.Blocks, k)
		}
	}
	if r.Len() > 0 {
		c.Child, c.NewChild, c.Target = posix.Ino(r.Uint64()), posix.Ino(r.Uint64()), r.Uint16()
		c.Chain, c.Back = readInos(r), readInos(r)
		c.Owner, c.PID = r.Uint64(), r.Uint32()
	}
	if err := r.Done(); err != nil {
		return Command{}, fmt.Errorf("command: %w", err)
	}
	return c, c.validate()
}

// validate refuses commands that no correct client sends.
func (c *Command) validate() error {
	switch {
	case !c.Op.IsUpdate() && !c.Op.IsQuery():
		return fmt.Errorf("command: unknown operation %d", c.Op)
	case c.Op == OpBatch && len(c.Data) <= MaxBatch:
	case len(c.Data) > max(MaxLiteral, posix.MaxXattr) || c.Op == OpWrite && len(c.Data) > MaxLiteral:
		return fmt.Errorf("command %d: %d bytes of data", c.Op, len(c.Data))
	case len(c.Chain) > MaxChain || len(c.Back) > MaxChain:
		return fmt.Errorf("command %d: %d and %d directories on the way up", c.Op, len(c.Chain), len(c.Back))
	case len(c.Blocks) > c.Op.maxBlocks():
		return fmt.Errorf("command %d: %d blocks", c.Op, len(c.Blocks))
	}
	var total uint64
	for _, k := range c.Blocks {
		if (k.Length == 0) != c.Op.namesBlocks() || k.Length > MaxBlock {
			return fmt.Errorf("command %d: block %v of %d bytes", c.Op, k.ID, k.Length)
		}
		total += uint64(k.Length)
	}
	if c.Op == OpWrite && c.Length != total+uint64(len(c.Data)) {
		return fmt.Errorf("write: length %d, content %d", c.Length, total+uint64(len(c.Data)))
	}
	return nil
}

// namesBlocks reports whether an operation uses only the ids of its blocks.
func (op Op) namesBlocks() bool { return op == OpDropped || op == OpCollected || op == OpGarbage }

func (op Op) maxBlocks() int {
	if op.namesBlocks() {
		return MaxIDs
	}
	return MaxBlocks
}

// Append appends the encoding of r.
func (r *Result) Append(b []byte) []byte {
	b = append(b, byte(r.Code))
	b = appendAttr(b, &r.Attr)
	b = varint.AppendBytes(b, r.Data)
	b = varint.AppendUint(b, uint64(len(r.Entries)))
	for i := range r.Entries {
		e := &r.Entries[i]
		b = varint.AppendBytes(b, e.Name)
		b = varint.AppendUint(b, e.Cookie)
		b = appendAttr(b, &e.Attr)
		b = varint.AppendUint(b, e.At)
	}
	b = varint.AppendUint(b, uint64(len(r.Extents)))
	for i := range r.Extents {
		e := &r.Extents[i]
		b = varint.AppendUint(b, e.Offset)
		b = varint.AppendUint(b, e.Length)
		b = varint.AppendBytes(b, e.Data)
		if e.Data == nil {
			b = append(b, e.Block[:]...)
			b = varint.AppendUint(b, e.Skip)
		}
	}
	b = varint.AppendUint(b, r.Number)
	b = varint.AppendUint(b, r.Number2)
	rights := len(r.Others) > 0 || slices.ContainsFunc(r.Extents, func(e Extent) bool { return e.Right != (posix.BlockRight{}) })
	if rights || r.Dir != (posix.Attr{}) { // clients of older versions do not know these fields, and do not ask for them
		b = appendAttr(b, &r.Dir)
	}
	if rights {
		for i := range r.Extents {
			if e := &r.Extents[i]; e.Data == nil {
				b = append(b, e.Right[:]...)
			}
		}
	}
	if len(r.Others) > 0 {
		b = varint.AppendUint(b, uint64(len(r.Others)))
		for i := range r.Others {
			b = appendAttr(b, &r.Others[i])
		}
	}
	return b
}

// DecodeResult decodes a result. The slices of the result alias b.
func DecodeResult(b []byte) (Result, error) {
	r := varint.NewReader(b)
	res := Result{Code: posix.Code(r.Uint8()), Attr: readAttr(r), Data: r.Bytes()}
	for n := r.Count(); n > 0 && r.Err() == nil; n-- {
		res.Entries = append(res.Entries, Entry{Name: r.String(), Cookie: r.Uint64(), Attr: readAttr(r), At: r.Uint16()})
	}
	for n := r.Count(); n > 0 && r.Err() == nil; n-- {
		e := Extent{Offset: r.Uint64(), Length: r.Uint64(), Data: r.Bytes()}
		if e.Data == nil {
			r.Fixed(e.Block[:])
			e.Skip = r.Uint32()
		}
		res.Extents = append(res.Extents, e)
	}
	res.Number, res.Number2 = r.Uint64(), r.Uint64()
	if r.Len() > 0 {
		res.Dir = readAttr(r)
	}
	if r.Len() > 0 {
		for i := range res.Extents {
			if e := &res.Extents[i]; e.Data == nil {
				r.Fixed(e.Right[:])
			}
		}
	}
	if r.Len() > 0 {
		for n := r.Count(); n > 0 && r.Err() == nil; n-- {
			res.Others = append(res.Others, readAttr(r))
		}
	}
	if err := r.Done(); err != nil {
		return Result{}, fmt.Errorf("result: %w", err)
	}
	return res, nil
}

func appendAttr(b []byte, a *posix.Attr) []byte {
	if *a == (posix.Attr{}) {
		return append(b, 0)
	}
	b = append(b, 1)
	b = varint.AppendUint(b, a.Ino)
	b = varint.AppendUint(b, a.Mode)
	b = varint.AppendUint(b, a.Nlink)
	b = varint.AppendUint(b, a.UID)
	b = varint.AppendUint(b, a.GID)
	b = varint.AppendUint(b, a.Rdev)
	b = varint.AppendUint(b, a.Size)
	b = varint.AppendUint(b, a.Bytes)
	b = varint.AppendInt(b, int64(a.Atime))
	b = varint.AppendInt(b, int64(a.Mtime))
	return varint.AppendInt(b, int64(a.Ctime))
}

func readAttr(r *varint.Reader) posix.Attr {
	var a posix.Attr
	if r.Uint(1) == 0 {
		return a
	}
	a.Ino = posix.Ino(r.Uint64())
	a.Mode, a.Nlink = posix.Mode(r.Uint32()), r.Uint32()
	a.UID, a.GID, a.Rdev = r.Uint32(), r.Uint32(), r.Uint32()
	a.Size, a.Bytes = r.Uint64(), r.Uint64()
	a.Atime, a.Mtime, a.Ctime = posix.Time(r.Int()), posix.Time(r.Int()), posix.Time(r.Int())
	return a
}
