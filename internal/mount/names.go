package mount

import (
	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"github.com/globalfs/globalfs/internal/client"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
)

// made answers a request that made or found an inode with a name.
func (f *fileSystem) made(h *fuse.InHeader, name string, out *fuse.EntryOut, a posix.Attr, err error) fuse.Status {
	if err != nil {
		return status(err)
	}
	f.entry(h, name, out, &a, 0)
	return fuse.OK
}

func (f *fileSystem) Lookup(cancel <-chan struct{}, header *fuse.InHeader, name string, out *fuse.EntryOut) fuse.Status {
	ctx, end := f.waits.reading(cancel, header.Pid)
	defer end()
	a, err := f.written.look(ctx, func() (posix.Attr, error) { return f.client.Lookup(ctx, ino(header), name) })
	return f.made(header, name, out, a, err)
}

func (f *fileSystem) Mknod(cancel <-chan struct{}, in *fuse.MknodIn, name string, out *fuse.EntryOut) fuse.Status {
	ctx, end := f.waits.changing(cancel, &in.InHeader)
	defer end()
	a, err := f.client.Mknod(ctx, cred(&in.InHeader), at(&in.InHeader, name), posix.Mode(in.Mode), in.Rdev)
	f.notices.changed(ino(&in.InHeader))
	return f.made(&in.InHeader, name, out, a, err)
}

func (f *fileSystem) Mkdir(cancel <-chan struct{}, in *fuse.MkdirIn, name string, out *fuse.EntryOut) fuse.Status {
	ctx, end := f.waits.changing(cancel, &in.InHeader)
	defer end()
	a, err := f.client.Mkdir(ctx, cred(&in.InHeader), at(&in.InHeader, name), posix.Mode(in.Mode).Perm())
	f.notices.changed(ino(&in.InHeader))
	return f.made(&in.InHeader, name, out, a, err)
}

func (f *fileSystem) Symlink(cancel <-chan struct{}, header *fuse.InHeader, target, name string, out *fuse.EntryOut) fuse.Status {
	ctx, end := f.waits.changing(cancel, header)
	defer end()
	a, err := f.client.Symlink(ctx, cred(header), at(header, name), target)
	f.notices.changed(ino(header))
	return f.made(header, name, out, a, err)
}

func (f *fileSystem) Readlink(cancel <-chan struct{}, header *fuse.InHeader) ([]byte, fuse.Status) {
	ctx, end := f.waits.reading(cancel, header.Pid)
	defer end()
	target, err := f.client.Readlink(ctx, ino(header))
	return target, status(err)
}

func (f *fileSystem) Link(cancel <-chan struct{}, in *fuse.LinkIn, name string, out *fuse.EntryOut) fuse.Status {
	ctx, end := f.waits.changing(cancel, &in.InHeader)
	defer end()
	f.written.naming()
	if err := f.written.settle(ctx, posix.Ino(in.Oldnodeid)); err != nil {
		return status(err)
	}
	a, err := f.client.Link(ctx, cred(&in.InHeader), posix.Ino(in.Oldnodeid), at(&in.InHeader, name))
	f.notices.changed(ino(&in.InHeader), posix.Ino(in.Oldnodeid))
	return f.made(&in.InHeader, name, out, a, err)
}

func (f *fileSystem) Unlink(cancel <-chan struct{}, header *fuse.InHeader, name string) fuse.Status {
	ctx, end := f.waits.changing(cancel, header)
	defer end()
	f.written.naming()
	err := f.client.Unlink(ctx, cred(header), at(header, name))
	f.notices.changed(ino(header))
	return status(err)
}

func (f *fileSystem) Rmdir(cancel <-chan struct{}, header *fuse.InHeader, name string) fuse.Status {
	ctx, end := f.waits.changing(cancel, header)
	defer end()
	err := f.client.Rmdir(ctx, cred(header), at(header, name))
	f.notices.changed(ino(header))
	return status(err)
}

func (f *fileSystem) Rename(cancel <-chan struct{}, in *fuse.RenameIn, name, newName string) fuse.Status {
	ctx, end := f.waits.changing(cancel, &in.InHeader)
	defer end()
	var flags uint32
	switch in.Flags {
	case 0:
	case unix.RENAME_NOREPLACE:
		flags = meta.RenameNoReplace
	case unix.RENAME_EXCHANGE:
		flags = meta.RenameExchange
	default:
		return status(posix.EINVAL)
	}
	f.written.naming()
	// A program that sees the new name must see the earlier writes to the file.
	if err := f.written.settleBeside(ctx, f.client, ino(&in.InHeader), posix.Ino(in.Newdir)); err != nil {
		return status(err)
	}
	if err := f.written.settleNamed(ctx, f.client, ino(&in.InHeader), name); err != nil {
		return status(err)
	}
	if flags == meta.RenameExchange {
		if err := f.written.settleNamed(ctx, f.client, posix.Ino(in.Newdir), newName); err != nil {
			return status(err)
		}
	}
	to := client.Name{Dir: posix.Ino(in.Newdir), Name: newName}
	err := f.client.Rename(ctx, cred(&in.InHeader), at(&in.InHeader, name), to, flags)
	f.notices.changed(ino(&in.InHeader), to.Dir)
	return status(err)
}
