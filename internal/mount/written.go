package mount

import (
	"context"
	"errors"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/globalfs/globalfs/internal/block"
	"github.com/globalfs/globalfs/internal/client"
	"github.com/globalfs/globalfs/internal/mount/behind"
	"github.com/globalfs/globalfs/internal/mount/serve"
	"github.com/globalfs/globalfs/internal/posix"
)

// Bounds of content that is written behind.
const (
	writtenDelay  = 200 * time.Millisecond // until it is ordered, though the file is open and no operation needs it
	writtenMemory = 64 << 20               // bytes of it
	writtenFinish = 10 * time.Second       // for what is left when the mount ends
	lockPatience  = 5 * time.Second        // for files of other partitions when a lock is released
)

// written is the content that programs have written, and that is not ordered yet; nil: writes are never kept.
type written struct {
	*behind.Files
}

// newWritten returns nil if each write is to be ordered before it is answered.
func newWritten(cfg *Config, forget func(posix.Ino)) *written {
	if cfg.Sync || cfg.Client == nil {
		return nil
	}
	return &written{behind.New(behind.Config{
		Store: contents{cfg.Client}, Delay: writtenDelay, Memory: writtenMemory, Logger: cfg.Logger, Forget: forget,
		Abandon: client.ErrAbandoned, IsFar: cfg.Client.IsFar,
	})}
}

// contents writes batches with the client.
type contents struct {
	client *client.Client
}

// Stage implements behind.Store.
func (c contents) Stage(ctx context.Context, ino posix.Ino, data *block.Draft) (behind.Staged, error) {
	s, err := c.client.Stage(ctx, ino, data)
	if err != nil {
		return nil, err
	}
	return s, nil
}

// Write implements behind.Store.
func (c contents) Write(ctx context.Context, b *behind.Batch) error {
	if err := c.write(ctx, b); err != nil || b.Set == 0 {
		return err
	}
	_, err := c.client.SetAttr(ctx, b.Cred, b.Ino, b.Set, b.Attr)
	return err
}

// IsQuick implements behind.Store. On a hard mount a signal must end the wait for the order at any time.
func (c contents) IsQuick(ino posix.Ino) bool { return !c.client.Hard() && c.client.AnswersAtOnce(ino) }

// write orders the content of a batch.
func (c contents) write(ctx context.Context, b *behind.Batch) error {
	w := client.Write{Ino: b.Ino, Offset: b.Offset, Append: b.Append, KillSetID: b.KillSetID, OnDisk: b.OnDisk}
	if first := b.Parts[0]; len(b.Parts) == 1 && first.Staged == nil && b.Offset+uint64(first.Data.Len()) <= client.MaxInline {
		w.Data = first.Data.Data() // it is small enough for the metadata
		_, err := c.client.Write(ctx, b.Cred, w)
		return err
	}
	parts := make([]client.Part, len(b.Parts))
	for i, p := range b.Parts {
		parts[i].Data = &p.Data
		if p.Staged != nil {
			parts[i].Staged = p.Staged.(*client.Staged)
		}
	}
	_, err := c.client.WriteParts(ctx, b.Cred, w, parts)
	return err
}

// open records a handle.
func (w *written) open(ino posix.Ino, handle uint64) {
	if w != nil {
		w.Open(ino, handle)
	}
}

// created records a handle of a new file.
func (w *written) created(a *posix.Attr, handle uint64) {
	if w != nil {
		w.Created(handle, a)
	}
}

// naming records that a name is about to be changed.
func (w *written) naming() {
	if w != nil {
		w.Named()
	}
}

// keepAttr keeps attributes with the content of a new file, or orders the content: then the caller sets the
// attributes.
func (w *written) keepAttr(ctx context.Context, h *fuse.InHeader, set uint32, wanted *posix.Attr, believe time.Duration) (a posix.Attr, kept bool, err error) {
	if w == nil {
		return posix.Attr{}, false, nil
	}
	if a, kept = w.SetAttr(ino(h), cred(h), set, wanted, believe); kept {
		return a, true, nil
	}
	w.Ordering(ino(h))
	return posix.Attr{}, false, w.Flush(ctx, ino(h))
}

// settleToChange is like settle, before another change of the file.
func (w *written) settleToChange(ctx context.Context, ino posix.Ino) error {
	if w == nil {
		return nil
	}
	w.Ordering(ino)
	return w.Flush(ctx, ino)
}

// release forgets a handle.
func (w *written) release(ino posix.Ino, handle uint64) {
	if w != nil {
		w.Release(ino, handle)
	}
}

// keep keeps the content of a write, and reports whether it did. It does not keep content that the program
// demands to be ordered at once, and pages of shared mappings, which may come after the last close.
func (w *written) keep(ctx context.Context, in *fuse.WriteIn, data []byte) (bool, error) {
	const atOnce = unix.O_DSYNC | unix.O_DIRECT // the first is a part of O_SYNC
	if w == nil || in.Flags&atOnce != 0 || in.WriteFlags&fuse.WRITE_CACHE != 0 {
		return false, nil
	}
	return w.Write(ctx, &behind.Write{
		Ino: ino(&in.InHeader), Handle: in.Fh, Cred: cred(&in.InHeader), Offset: in.Offset, Data: data,
		Append: in.Flags&unix.O_APPEND != 0, KillSetID: in.WriteFlags&fuse.WRITE_KILL_SUIDGID != 0,
	})
}

// settle returns when all content written to a file is ordered.
func (w *written) settle(ctx context.Context, ino posix.Ino) error {
	if w == nil {
		return nil
	}
	return w.Flush(ctx, ino)
}

// settleToDisk is like settle, before a wait for the disks of the servers.
func (w *written) settleToDisk(ctx context.Context, ino posix.Ino) error {
	if w == nil {
		return nil
	}
	return w.FlushToDisk(ctx, ino)
}

// settleHandle is like settle, and also returns, once, the error of lost content.
func (w *written) settleHandle(ctx context.Context, ino posix.Ino, handle uint64) error {
	if w == nil {
		return nil
	}
	return w.FlushHandle(ctx, ino, handle)
}

// settleDescriptor is like settleHandle, for the close of a descriptor: the error does not count as reported.
func (w *written) settleDescriptor(ctx context.Context, ino posix.Ino, handle uint64) error {
	if w == nil {
		return nil
	}
	return w.FlushDescriptor(ctx, ino, handle)
}

// settleAll returns when all that was written is ordered.
func (w *written) settleAll(ctx context.Context) error {
	if w == nil {
		return nil
	}
	return w.FlushAll(ctx)
}

// settleBeside is like settleAll, for some inodes and the files in their partitions: files of others may not
// be in reach.
func (w *written) settleBeside(ctx context.Context, c *client.Client, inos ...posix.Ino) error {
	if w == nil {
		return nil
	}
	return w.FlushThose(ctx, func(file posix.Ino) bool {
		if slices.Contains(inos, file) {
			return true
		}
		at, ok := c.At(file)
		return ok && slices.ContainsFunc(inos, func(ino posix.Ino) bool {
			other, ok := c.At(ino)
			return ok && at == other
		})
	})
}

// settleLocked returns when the content that was written under a lock on an inode is ordered: the next
// holder of the lock reads it. For files of other partitions, which may be unreachable, it waits at most
// lockPatience, and not at all if nothing of them was ordered for that time.
func (w *written) settleLocked(ctx context.Context, c *client.Client, locked posix.Ino) error {
	if w == nil || w.IsSettled() {
		return nil
	}
	if err := w.settleBeside(ctx, c, locked); err != nil {
		return err
	}
	others, cancel := context.WithTimeout(ctx, lockPatience)
	defer cancel()
	if err := w.FlushMoving(others, lockPatience); err != nil && ctx.Err() != nil {
		return err
	}
	return nil
}

// settleNamed settles the file with a name, which may be in another partition than its directory.
func (w *written) settleNamed(ctx context.Context, c *client.Client, dir posix.Ino, name string) error {
	if w == nil || w.IsSettled() {
		return nil
	}
	if a, err := c.Lookup(ctx, dir, name); err == nil { // otherwise the operation itself finds out why
		return w.settle(ctx, a.Ino)
	}
	return nil
}

// settleWithin is like settleAll, with a time limit.
func (w *written) settleWithin(most time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), most)
	defer cancel()
	return w.settleAll(ctx)
}

// lost returns the losses that were not reported to open files.
func (w *written) lost() (all []serve.Lost) {
	if w == nil {
		return nil
	}
	w.Unreported(func(ino posix.Ino, handle uint64, err error) {
		l := serve.Lost{Ino: ino, File: handle, Code: posix.EIO}
		_ = errors.As(err, &l.Code)
		all = append(all, l)
	})
	return all
}

// adopt takes over the losses of a process that has served the mount before.
func (w *written) adopt(all []serve.Lost) {
	if w == nil {
		return
	}
	for _, l := range all {
		if l.Code == posix.OK || !l.Code.Valid() {
			l.Code = posix.EIO
		}
		w.Adopt(l.Ino, l.File, l.Code)
	}
}

// takeUnreportedLosses reports whether content of any file was lost since its last call.
func (w *written) takeUnreportedLosses() bool { return w != nil && w.TakeUnreportedLosses() }

// finish orders what is left when the mount ends.
func (w *written) finish() {
	if w == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), writtenFinish)
	defer cancel()
	w.Close(ctx)
}

// look reads attributes of an inode that include all earlier writes through this mount. If the answer may be
// older, look calls read again. After a write during the request the kernel itself ignores the requested
// attributes.
func (w *written) look(ctx context.Context, read func() (posix.Attr, error)) (posix.Attr, error) {
	mark := w.mark()
	a, err := read()
	if err != nil || !w.changed(&a, mark) {
		return a, err
	}
	if err := w.settle(ctx, a.Ino); err != nil {
		return a, err
	}
	return read()
}

// mark returns a moment for changed.
func (w *written) mark() uint64 {
	if w == nil {
		return 0
	}
	return w.Mark()
}

// changed reports whether attributes that were read after a mark may be older than the written content.
func (w *written) changed(a *posix.Attr, mark uint64) bool {
	return w != nil && a.Mode.IsRegular() && w.Changed(a.Ino, mark)
}
