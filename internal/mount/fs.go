package mount

import (
	"time"

	"github.com/globalfs/globalfs/internal/client"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/hanwen/go-fuse/v2/fuse"
)

// fileSystem answers the kernel. Requests run concurrently.
type fileSystem struct {
	fuse.RawFileSystem
	client    *client.Client
	cacheTime time.Duration
	server    *fuse.Server // set before the first request
}

func (f *fileSystem) Init(server *fuse.Server) { f.server = server }

func (f *fileSystem) String() string { return "globalfs" }

func (f *fileSystem) Lookup(cancel <-chan struct{}, header *fuse.InHeader, name string, out *fuse.EntryOut) fuse.Status {
	a, err := f.client.Lookup(request(cancel), ino(header), name)
	if err != nil {
		return status(err)
	}
	f.entry(out, &a)
	return fuse.OK
}

func (f *fileSystem) GetAttr(cancel <-chan struct{}, input *fuse.GetAttrIn, out *fuse.AttrOut) fuse.Status {
	a, err := f.client.GetAttr(request(cancel), ino(&input.InHeader))
	if err != nil {
		return status(err)
	}
	f.attr(out, &a)
	return fuse.OK
}

func (f *fileSystem) SetAttr(cancel <-chan struct{}, input *fuse.SetAttrIn, out *fuse.AttrOut) fuse.Status {
	set, a := setAttr(input)
	result, err := f.client.SetAttr(request(cancel), cred(&input.InHeader), ino(&input.InHeader), set, a)
	if err != nil {
		return status(err)
	}
	f.attr(out, &result)
	return fuse.OK
}

// setAttr translates what is to be set.
func setAttr(in *fuse.SetAttrIn) (set uint32, a posix.Attr) {
	a.Mode, a.UID, a.GID, a.Size = posix.Mode(in.Mode).Perm(), in.Owner.Uid, in.Owner.Gid, in.Size
	a.Atime, a.Mtime, a.Ctime = join(in.Atime, in.Atimensec), join(in.Mtime, in.Mtimensec), join(in.Ctime, in.Ctimensec)
	for _, bit := range []struct{ kernel, ours uint32 }{
		{fuse.FATTR_MODE, meta.SetMode}, {fuse.FATTR_UID, meta.SetUID}, {fuse.FATTR_GID, meta.SetGID},
		{fuse.FATTR_SIZE, meta.SetSize}, {fuse.FATTR_ATIME, meta.SetAtime}, {fuse.FATTR_MTIME, meta.SetMtime},
		{fuse.FATTR_ATIME_NOW, meta.SetAtimeNow}, {fuse.FATTR_MTIME_NOW, meta.SetMtimeNow},
		{fuse.FATTR_CTIME, meta.SetCtime}, {fuse.FATTR_KILL_SUIDGID, meta.KillSetID},
	} {
		if in.Valid&bit.kernel != 0 {
			set |= bit.ours
		}
	}
	if set&meta.SetAtimeNow != 0 {
		set &^= meta.SetAtime
	}
	if set&meta.SetMtimeNow != 0 {
		set &^= meta.SetMtime
	}
	return set, a
}

// made answers what mknod, mkdir, symlink and link have made.
func (f *fileSystem) made(out *fuse.EntryOut, a posix.Attr, err error) fuse.Status {
	if err != nil {
		return status(err)
	}
	f.entry(out, &a)
	return fuse.OK
}

func (f *fileSystem) Mknod(cancel <-chan struct{}, input *fuse.MknodIn, name string, out *fuse.EntryOut) fuse.Status {
	a, err := f.client.Mknod(request(cancel), cred(&input.InHeader), at(&input.InHeader, name), posix.Mode(input.Mode), input.Rdev)
	return f.made(out, a, err)
}

func (f *fileSystem) Mkdir(cancel <-chan struct{}, input *fuse.MkdirIn, name string, out *fuse.EntryOut) fuse.Status {
	a, err := f.client.Mkdir(request(cancel), cred(&input.InHeader), at(&input.InHeader, name), posix.Mode(input.Mode).Perm())
	return f.made(out, a, err)
}

func (f *fileSystem) Symlink(cancel <-chan struct{}, header *fuse.InHeader, target, name string, out *fuse.EntryOut) fuse.Status {
	a, err := f.client.Symlink(request(cancel), cred(header), at(header, name), target)
	return f.made(out, a, err)
}

func (f *fileSystem) Readlink(cancel <-chan struct{}, header *fuse.InHeader) ([]byte, fuse.Status) {
	target, err := f.client.Readlink(request(cancel), ino(header))
	return target, status(err)
}

func (f *fileSystem) Unlink(cancel <-chan struct{}, header *fuse.InHeader, name string) fuse.Status {
	return status(f.client.Unlink(request(cancel), cred(header), at(header, name)))
}

func (f *fileSystem) Rmdir(cancel <-chan struct{}, header *fuse.InHeader, name string) fuse.Status {
	return status(f.client.Rmdir(request(cancel), cred(header), at(header, name)))
}

// The flags of renameat2(2).
const (
	renameNoReplace = 1 << iota
	renameExchange
)

func (f *fileSystem) Rename(cancel <-chan struct{}, input *fuse.RenameIn, name, newName string) fuse.Status {
	var flags uint32
	switch input.Flags {
	case 0:
	case renameNoReplace:
		flags = meta.RenameNoReplace
	case renameExchange:
		flags = meta.RenameExchange
	default:
		return status(posix.EINVAL)
	}
	return status(f.client.Rename(request(cancel), cred(&input.InHeader), at(&input.InHeader, name), client.Name{Dir: posix.Ino(input.Newdir), Name: newName}, flags))
}

func (f *fileSystem) Link(cancel <-chan struct{}, input *fuse.LinkIn, name string, out *fuse.EntryOut) fuse.Status {
	a, err := f.client.Link(request(cancel), cred(&input.InHeader), posix.Ino(input.Oldnodeid), at(&input.InHeader, name))
	return f.made(out, a, err)
}

func (f *fileSystem) StatFs(cancel <-chan struct{}, header *fuse.InHeader, out *fuse.StatfsOut) fuse.Status {
	u, err := f.client.StatFS(request(cancel), ino(header))
	if err != nil {
		return status(err)
	}
	const unit = 4096
	out.Bsize, out.Frsize, out.NameLen = unit, unit, posix.MaxName
	out.Blocks, out.Bfree, out.Bavail = (u.Used+u.Free)/unit, u.Free/unit, u.Free/unit
	out.Files, out.Ffree = 1<<posix.CounterBits, 1<<posix.CounterBits-u.Inodes
	return fuse.OK
}
