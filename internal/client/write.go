package client

import (
	"context"

	"golang.org/x/sync/errgroup"

	"github.com/globalfs/globalfs/internal/block"
	"github.com/globalfs/globalfs/internal/client/route"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/varint"
)

// MaxInline is the maximum length in bytes of content that is sent in the command and stored in the metadata,
// without a block.
const MaxInline = 4 << 10

// maxWrite bounds one command, in bytes.
const maxWrite = meta.MaxBlocks * meta.MaxBlock

// Writer are the operations that write the content of files.
type Writer struct {
	common
	blocks *Blocks
}

// Write is one write to a file.
type Write struct {
	Ino    posix.Ino
	Offset uint64 // with Append: the expected end of the file
	Data   []byte
	// Append writes at the end of the file as it is at the write's place in the order. Data longer than 64
	// MiB is appended in several steps.
	Append bool
	// KillSetID removes the set-id bits, as a write by a user without CAP_FSETID does.
	KillSetID bool
	// OnDisk demands that the disks of a majority have the write when Write returns, and all updates of the
	// partition before it. If the answer confirms this, a later Persist need not query the servers.
	OnDisk bool
}

// flags returns those of the command of a write.
func (w *Write) flags() (flags uint32) {
	if w.Append {
		flags |= meta.Append
	}
	if w.OnDisk {
		flags |= meta.OnDisk
	}
	return flags
}

// noteOnDisk records the place of the order that the answer to a write with OnDisk has. The answers of
// servers of earlier versions, and the answers to repeated commands, have no such place.
func (c *Writer) noteOnDisk(a *route.Answer) {
	if len(a.Data) == 0 {
		return
	}
	r := varint.NewReader(a.Data)
	if place := r.Uint64(); r.Done() == nil {
		route.OnDisk(c.router.Router, a.Partition, a.Seen.History, place)
	}
}

// Written is the result of a Write.
type Written struct {
	Bytes  int    // number of bytes written; less than len(Data) only together with an error
	Offset uint64 // offset of the first byte
	Attr   posix.Attr
}

// Write writes w.Data and returns when it is durable (C4).
func (c *Writer) Write(ctx context.Context, cred posix.Cred, w Write) (Written, error) {
	if w.Offset > posix.MaxSize || uint64(len(w.Data)) > posix.MaxSize-w.Offset {
		return Written{}, posix.EFBIG // before blocks are stored for it
	}
	ctx, cancel := c.router.Operation(ctx)
	defer cancel()
	var done Written
	for first := true; first || done.Bytes < len(w.Data); first = false {
		part := w
		part.Offset += uint64(done.Bytes)
		part.Data = w.Data[done.Bytes:min(len(w.Data), done.Bytes+maxWrite)]
		a, err := c.writePart(ctx, cred, &part)
		if err != nil {
			return done, c.outcome(err)
		}
		c.noteOnDisk(&a)
		if first {
			done.Offset = a.Number
		}
		done.Bytes += len(part.Data)
		done.Attr = a.Attr
	}
	if w.KillSetID {
		var err error
		if done.Attr, err = c.killSetID(ctx, cred, done.Attr); err != nil {
			return done, err
		}
	}
	return done, nil
}

// killSetID removes the set-id bits of the file with these attributes. It returns the new attributes.
func (c *Writer) killSetID(ctx context.Context, cred posix.Cred, a posix.Attr) (posix.Attr, error) {
	if a.Mode&(posix.SetUID|posix.SetGID) == 0 {
		return a, nil
	}
	kill := &meta.Command{Op: meta.OpSetAttr, Cred: cred, Ino: a.Ino, Set: meta.KillSetID}
	answer, err := c.router.Update(ctx, kill, route.Inode(a.Ino))
	if err != nil {
		return a, err
	}
	return answer.Attr, nil
}

// writePart writes data that fits one command.
func (c *Writer) writePart(ctx context.Context, cred posix.Cred, w *Write) (route.Answer, error) {
	cmd := meta.Command{Op: meta.OpWrite, Cred: cred, Ino: w.Ino, Offset: w.Offset, Length: uint64(len(w.Data)), Flags: w.flags()}
	if w.Offset <= MaxInline && uint64(len(w.Data)) <= MaxInline-w.Offset {
		cmd.Data = w.Data
		return c.router.Update(ctx, &cmd, route.Inode(w.Ino))
	}
	if blockCount(w.Data) == 1 && c.router.waiting.takesFor(w.Ino, len(w.Data)) {
		if a, done, err := c.writeLater(ctx, &cmd, block.NewDraft(w.Data)); done || err != nil {
			return a, err
		}
	}
	var ids *route.BlockIDs // of the blocks that hold the data
	decided := func() {
		if ids != nil {
			ids.Decided()
		}
	}
	defer func() { decided() }()
	return c.router.UpdateBuilt(ctx, w.Ino, func(at uint16) (_ *meta.Command, session uint64, err error) {
		if ids != nil && ids.Good(c.router.Router, at) {
			return &cmd, ids.First.Session(), nil
		}
		decided() // the file has moved, or the session has ended
		c.blocks.away.wrote(w.Ino, at)
		ids, err = c.router.NumberBlocks(ctx, at, blockCount(w.Data))
		if err != nil {
			return nil, 0, err
		}
		cmd.Blocks, err = c.put(ctx, ids.First, w.Data)
		return &cmd, ids.First.Session(), err
	})
}

// Staged is content that is stored as a block before a write names it.
type Staged struct {
	ids   *route.BlockIDs
	block meta.Block
}

// Drop declares that no write will name the block.
func (s *Staged) Drop() { s.ids.Decided() }

// Part is content of a write that is at most one block.
type Part struct {
	Data   *block.Draft
	Staged *Staged // nil: the content is not stored yet
}

// Stage stores data, at most one block, before a write to a file. The data must not be changed afterwards.
// The caller must call WriteParts or Drop.
func (c *Writer) Stage(ctx context.Context, ino posix.Ino, data *block.Draft) (*Staged, error) {
	ctx, cancel := c.router.Operation(ctx)
	defer cancel()
	at, err := c.router.At(ino)
	if err != nil {
		return nil, err
	}
	s, err := c.stage(ctx, at, data)
	return s, c.outcome(err)
}

func (c *Writer) stage(ctx context.Context, at uint16, data *block.Draft) (*Staged, error) {
	ids, err := c.router.NumberBlocks(ctx, at, 1)
	if err != nil {
		return nil, err
	}
	b := data.Seal(ids.First)
	if err := c.blocks.put(ctx, b); err != nil {
		ids.Decided()
		c.notStored(ctx, at, err)
		return nil, err
	}
	return &Staged{ids, meta.Block{ID: b.ID, Length: uint32(len(b.Data))}}, nil
}

// WriteParts is like Write, for consecutive parts, at most 64, which are ordered together. It first stores
// the parts that are not staged, or that were staged for another partition or session. Afterwards no part is
// staged.
func (c *Writer) WriteParts(ctx context.Context, cred posix.Cred, w Write, parts []Part) (Written, error) {
	ctx, cancel := c.router.Operation(ctx)
	defer cancel()
	defer func() {
		for i := range parts {
			parts[i].drop()
		}
	}()
	cmd := meta.Command{Op: meta.OpWrite, Cred: cred, Ino: w.Ino, Offset: w.Offset, Flags: w.flags()}
	for i := range parts {
		cmd.Length += uint64(parts[i].Data.Len())
	}
	if cmd.Offset > posix.MaxSize || cmd.Length > posix.MaxSize-cmd.Offset {
		return Written{}, posix.EFBIG
	}
	a, err := c.writeParts(ctx, &cmd, parts)
	if err != nil {
		return Written{}, c.outcome(err)
	}
	c.noteOnDisk(&a)
	done := Written{Bytes: int(cmd.Length), Offset: a.Number, Attr: a.Attr}
	if w.KillSetID {
		done.Attr, err = c.killSetID(ctx, cred, a.Attr)
	}
	return done, err
}

// writeParts executes a write of parts.
func (c *Writer) writeParts(ctx context.Context, cmd *meta.Command, parts []Part) (route.Answer, error) {
	if len(parts) == 1 && parts[0].Staged == nil && c.router.waiting.takesFor(cmd.Ino, parts[0].Data.Len()) {
		if a, done, err := c.writeLater(ctx, cmd, parts[0].Data); done || err != nil {
			return a, err
		}
	}
	return c.router.UpdateBuilt(ctx, cmd.Ino, func(at uint16) (_ *meta.Command, session uint64, err error) {
		c.blocks.away.wrote(cmd.Ino, at)
		cmd.Blocks, session, err = c.stageParts(ctx, at, parts)
		return cmd, session, err
	})
}

// writeLater executes a write of one block in a log, and stores the block later. If done is false, the caller
// must store the block first.
func (c *Writer) writeLater(ctx context.Context, cmd *meta.Command, data *block.Draft) (a route.Answer, done bool, err error) {
	ids, err := c.router.NumberBlocks(ctx, cmd.Ino.Partition(), 1)
	if err != nil {
		return a, false, err
	}
	defer ids.Decided()
	b := data.Seal(ids.First)
	with := *cmd
	with.Blocks = []meta.Block{{ID: b.ID, Length: uint32(len(b.Data))}}
	return c.router.waiting.write(ctx, &with, &b)
}

// drop undoes the staging of a part.
func (p *Part) drop() {
	if p.Staged != nil {
		p.Staged.Drop()
		p.Staged = nil
	}
}

// stageParts stores each part as a block whose id belongs to the client's present session in a partition. It
// skips parts that are stored under this session already. It returns the blocks and the number of the
// session.
func (c *Writer) stageParts(ctx context.Context, at uint16, parts []Part) (blocks []meta.Block, session uint64, err error) {
	g, staging := errgroup.WithContext(ctx)
	g.SetLimit(parallel)
	for i := range parts {
		p := &parts[i]
		if p.Staged != nil && p.Staged.ids.Good(c.router.Router, at) {
			continue
		}
		p.drop()
		g.Go(func() (err error) {
			p.Staged, err = c.stage(staging, at, p.Data)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, 0, err
	}
	for i := range parts {
		blocks = append(blocks, parts[i].Staged.block)
	}
	return blocks, parts[0].Staged.ids.First.Session(), nil
}

// blockCount returns the number of blocks that hold data.
func blockCount(data []byte) int { return (len(data) + meta.MaxBlock - 1) / meta.MaxBlock }

// put stores data as blocks with ids from first on, which were never used before. So a failed write leaves
// garbage, and never changes a block.
func (c *Writer) put(ctx context.Context, first posix.BlockID, data []byte) ([]meta.Block, error) {
	blocks := make([]meta.Block, blockCount(data))
	g, stored := errgroup.WithContext(ctx)
	g.SetLimit(parallel)
	for i := range blocks {
		part := data[i*meta.MaxBlock : min(len(data), (i+1)*meta.MaxBlock)]
		id := posix.MakeBlockID(first.Partition(), first.Session(), first.Counter()+uint64(i))
		blocks[i] = meta.Block{ID: id, Length: uint32(len(part))}
		g.Go(func() error { return c.blocks.put(stored, block.New(id, part)) })
	}
	if err := g.Wait(); err != nil {
		c.notStored(ctx, first.Partition(), err)
		return nil, err
	}
	return blocks, nil
}

// notStored logs that blocks of a partition could not be stored, unless ctx has ended.
func (c *Writer) notStored(ctx context.Context, partition uint16, err error) {
	if ctx.Err() == nil {
		c.notices.Rarely("write block", "blocks cannot be stored: check the storage servers of the partition's regions and their free space",
			"partition", partition, "error", err)
	}
}

// Fallocate grows a file or makes a range zeros; flags are meta.FallocatePunch and the like. It removes the
// set-id bits, unless the user is root.
func (c *Writer) Fallocate(ctx context.Context, cred posix.Cred, ino posix.Ino, offset, length uint64, flags uint32) error {
	cmd := &meta.Command{Op: meta.OpFallocate, Cred: cred, Ino: ino, Offset: offset, Length: length, Flags: flags}
	a, err := c.router.Update(ctx, cmd, route.Inode(ino))
	if err == nil && cred.UID != 0 {
		_, err = c.killSetID(ctx, cred, a.Attr)
	}
	return err
}
