package mount

import (
	"context"
	"errors"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"github.com/globalfs/globalfs/internal/client"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
)

// Create makes a file whose name the kernel has not found. If another mount has made it meanwhile, the kernel
// must look the name up again and check the permissions of that file: ESTALE makes it do so.
func (f *fileSystem) Create(cancel <-chan struct{}, in *fuse.CreateIn, name string, out *fuse.CreateOut) fuse.Status {
	ctx, end := f.waits.changing(cancel, &in.InHeader)
	defer end()
	a, err := f.client.Create(ctx, cred(&in.InHeader), at(&in.InHeader, name), posix.Mode(in.Mode), meta.Exclusive)
	f.notices.changed(ino(&in.InHeader))
	if errors.Is(err, posix.EEXIST) && in.Flags&unix.O_EXCL == 0 {
		err = posix.ESTALE
	}
	out.Fh = f.files.Add(1)
	f.persister.open(descriptor{number: out.Fh}, a.Ino)
	if err == nil {
		f.written.created(&a, out.Fh)
	}
	return f.made(&in.InHeader, name, &out.EntryOut, a, err)
}

// Open holds the file. If the file has changed since its last open, Open makes the kernel drop its pages.
func (f *fileSystem) Open(cancel <-chan struct{}, in *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	ctx, end := f.waits.reading(cancel, in.Pid)
	defer end()
	if err := f.written.settle(ctx, ino(&in.InHeader)); err != nil {
		return status(err)
	}
	a, err := f.open(ctx, in)
	if err != nil {
		return status(err)
	}
	out.Fh = f.files.Add(1)
	f.persister.open(descriptor{number: out.Fh}, a.Ino)
	f.written.open(a.Ino, out.Fh)
	if in.Flags&unix.O_TRUNC != 0 {
		_ = f.written.settleToChange(ctx, ino(&in.InHeader)) // the content is removed
		return f.truncate(cancel, in, out.Fh)
	}
	if f.versions.same(&a) {
		out.OpenFlags |= fuse.FOPEN_KEEP_CACHE
	} else {
		f.notices.opened(&a) // the answer drops the pages, but not the attributes
	}
	return fuse.OK
}

// open opens an inode. If the inode has no name, it was unlinked after its lookup; ESTALE makes the kernel
// look the name up again, once. If the inode of that lookup has lost its name too, because others replace the
// file all the time, open opens it: it had the name at the lookup.
func (f *fileSystem) open(ctx context.Context, in *fuse.OpenIn) (posix.Attr, error) {
	a, err := f.client.Open(ctx, ino(&in.InHeader))
	if errors.Is(err, posix.ESTALE) && f.retries.isOne(in.Pid) {
		return f.client.OpenUnlinked(ctx, ino(&in.InHeader))
	}
	return a, err
}

// truncate does the rest of open(O_TRUNC).
func (f *fileSystem) truncate(cancel <-chan struct{}, in *fuse.OpenIn, handle uint64) fuse.Status {
	ctx, end := f.waits.changing(cancel, &in.InHeader)
	defer end()
	set := meta.SetSize
	if in.Mode&fuse.OPEN_KILL_SUIDGID != 0 {
		set |= meta.KillSetID
	}
	_, err := f.client.SetAttr(ctx, cred(&in.InHeader), ino(&in.InHeader), set, posix.Attr{})
	if err != nil {
		f.written.release(ino(&in.InHeader), handle)
		f.client.Release(ino(&in.InHeader))
	}
	return status(err)
}

func (f *fileSystem) Release(_ <-chan struct{}, in *fuse.ReleaseIn) {
	f.endFileLocks(ino(&in.InHeader), in.Fh)
	f.persister.forget(descriptor{number: in.Fh})
	f.written.release(ino(&in.InHeader), in.Fh)
	f.client.Release(ino(&in.InHeader))
}

// Forget records that the kernel has no pages of a node.
func (f *fileSystem) Forget(node, _ uint64) { f.versions.forget(posix.Ino(node)) }

func (f *fileSystem) Read(cancel <-chan struct{}, in *fuse.ReadIn, buf []byte) (fuse.ReadResult, fuse.Status) {
	ctx, end := f.waits.reading(cancel, in.Pid)
	defer end()
	if err := f.written.settle(ctx, ino(&in.InHeader)); err != nil {
		return nil, status(err)
	}
	content, err := f.client.View(ctx, ino(&in.InHeader), buf[:min(len(buf), int(in.Size))], in.Offset, f.cacheTime)
	if err != nil {
		return nil, status(err)
	}
	if len(content) > 0 && &content[0] != &buf[0] && f.kernel.Attach(in.Unique, content) {
		return fuse.ReadResultData(nil), fuse.OK // it need not be copied
	}
	return fuse.ReadResultData(content), fuse.OK
}

// Write keeps the data in memory, or passes them to the client. The offset of an append is determined when
// the write is ordered, because the kernel's offset comes from a size that may be out of date. The kernel may
// then have the data in pages at a wrong offset. Its size is wrong, too, so it drops these pages when it asks
// for attributes before the next read (AUTO_INVAL_DATA). Pages of a shared mapping come without O_APPEND.
func (f *fileSystem) Write(cancel <-chan struct{}, in *fuse.WriteIn, data []byte) (uint32, fuse.Status) {
	ctx, end := f.waits.changing(cancel, &in.InHeader)
	defer end()
	switch kept, err := f.written.keep(ctx, in, data); {
	case err != nil:
		return 0, status(err)
	case kept:
		if in.WriteFlags&fuse.WRITE_KILL_SUIDGID != 0 {
			f.setIDs.taken(f.kernel, ino(&in.InHeader))
		}
		return uint32(len(data)), fuse.OK
	}
	if err := f.written.settleToChange(ctx, ino(&in.InHeader)); err != nil {
		return 0, status(err)
	}
	if in.WriteFlags&fuse.WRITE_CACHE == 0 { // pages may belong to any process, and report errors on their own
		if err := f.written.settleHandle(ctx, ino(&in.InHeader), in.Fh); err != nil { // an earlier loss is reported first
			return 0, status(err)
		}
	}
	written, err := f.client.Write(ctx, cred(&in.InHeader), client.Write{
		Ino: ino(&in.InHeader), Offset: in.Offset, Data: data,
		Append:    in.Flags&unix.O_APPEND != 0,
		KillSetID: in.WriteFlags&fuse.WRITE_KILL_SUIDGID != 0,
		OnDisk:    in.Flags&unix.O_DSYNC != 0,
	})
	if in.WriteFlags&fuse.WRITE_KILL_SUIDGID != 0 {
		f.setIDs.taken(f.kernel, ino(&in.InHeader))
	}
	if in.WriteFlags&fuse.WRITE_CACHE != 0 { // the kernel does not know that the times have changed
		f.notices.forget(ino(&in.InHeader))
	}
	if err == nil && in.Flags&unix.O_DSYNC != 0 { // O_SYNC includes O_DSYNC
		ctx, end := f.waits.reading(cancel, in.Pid)
		defer end()
		if err := f.persister.fsync(ctx, &in.InHeader, descriptor{number: in.Fh}); err != nil {
			return 0, status(err)
		}
	}
	if written.Bytes == 0 {
		return 0, status(err)
	}
	return uint32(written.Bytes), fuse.OK
}

// largeReserve is the number of bytes from which on fallocate checks that so much space is free. fallocate
// does not reserve the space: others may use it.
const largeReserve = 64 << 20

// isTooLarge returns true if fallocate would reserve more bytes behind the end of the file than are free.
func isTooLarge(ctx context.Context, c *client.Client, in *fuse.FallocateIn) bool {
	if in.Length < largeReserve {
		return false
	}
	a, err := c.GetAttr(ctx, ino(&in.InHeader))
	if err != nil || in.Offset+in.Length <= a.Size {
		return false
	}
	u, err := c.StatFS(ctx, ino(&in.InHeader))
	return err == nil && min(in.Length, in.Offset+in.Length-a.Size) > u.Free
}

func (f *fileSystem) Fallocate(cancel <-chan struct{}, in *fuse.FallocateIn) fuse.Status {
	ctx, end := f.waits.changing(cancel, &in.InHeader)
	defer end()
	if err := f.written.settleToChange(ctx, ino(&in.InHeader)); err != nil {
		return status(err)
	}
	var flags uint32
	switch in.Mode &^ unix.FALLOC_FL_KEEP_SIZE {
	case 0:
		if isTooLarge(ctx, f.client, in) {
			return status(posix.ENOSPC)
		}
	case unix.FALLOC_FL_PUNCH_HOLE:
		flags = meta.FallocatePunch
	case unix.FALLOC_FL_ZERO_RANGE:
		flags = meta.FallocateZero
	default:
		return status(posix.EOPNOTSUPP)
	}
	if in.Mode&unix.FALLOC_FL_KEEP_SIZE != 0 {
		flags |= meta.FallocateKeepSize
	}
	err := f.client.Fallocate(ctx, cred(&in.InHeader), ino(&in.InHeader), in.Offset, in.Length, flags)
	if in.Uid != 0 {
		f.setIDs.taken(f.kernel, ino(&in.InHeader))
	}
	return status(err)
}

// Lseek finds data and holes; the kernel does the rest of lseek(2) itself.
func (f *fileSystem) Lseek(cancel <-chan struct{}, in *fuse.LseekIn, out *fuse.LseekOut) (code fuse.Status) {
	ctx, end := f.waits.reading(cancel, in.Pid)
	defer end()
	if err := f.written.settle(ctx, ino(&in.InHeader)); err != nil {
		return status(err)
	}
	var err error
	switch in.Whence {
	case unix.SEEK_DATA:
		out.Offset, err = f.client.SeekData(ctx, ino(&in.InHeader), in.Offset)
	case unix.SEEK_HOLE:
		out.Offset, err = f.client.SeekHole(ctx, ino(&in.InHeader), in.Offset)
	default:
		err = posix.EINVAL
	}
	return status(err)
}
