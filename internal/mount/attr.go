package mount

import (
	"math"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/mount/serve"
	"github.com/globalfs/globalfs/internal/posix"
)

// blockSize is the I/O size that stat recommends, in bytes. Each ordered write costs one round, whatever its
// length. So programs that use this size, such as cp and dd, write whole blocks. It must be a power of 2.
const blockSize = serve.MaxRequest

// fill converts attributes to the kernel's format.
func fill(out *fuse.Attr, a *posix.Attr) {
	*out = fuse.Attr{
		Ino: uint64(a.Ino), Mode: uint32(a.Mode), Nlink: a.Nlink, Rdev: a.Rdev,
		Size: a.Size, Blocks: (a.Bytes + 511) / 512, Blksize: blockSize,
		Owner: fuse.Owner{Uid: a.UID, Gid: a.GID},
	}
	out.Atime, out.Atimensec = split(a.Atime)
	out.Mtime, out.Mtimensec = split(a.Mtime)
	out.Ctime, out.Ctimensec = split(a.Ctime)
}

func split(t posix.Time) (seconds uint64, nanoseconds uint32) {
	std := t.Std()
	return uint64(std.Unix()), uint32(std.Nanosecond())
}

// join converts a time to a posix.Time. A time before 1678 or after 2262 becomes the nearest time that
// posix.Time can represent.
func join(seconds uint64, nanoseconds uint32) posix.Time {
	const last = math.MaxInt64/int64(time.Second) - 1
	return posix.Time(min(max(int64(seconds), -last), last)*int64(time.Second) + int64(nanoseconds))
}

func (f *fileSystem) GetAttr(cancel <-chan struct{}, in *fuse.GetAttrIn, out *fuse.AttrOut) fuse.Status {
	ctx, end := f.waits.reading(cancel, in.Pid)
	defer end()
	if err := f.written.settle(ctx, ino(&in.InHeader)); err != nil {
		return status(err)
	}
	a, err := f.client.GetAttr(ctx, ino(&in.InHeader))
	if err != nil {
		return status(err)
	}
	f.attr(&in.InHeader, out, &a)
	return fuse.OK
}

func (f *fileSystem) SetAttr(cancel <-chan struct{}, in *fuse.SetAttrIn, out *fuse.AttrOut) fuse.Status {
	ctx, end := f.waits.changing(cancel, &in.InHeader)
	defer end()
	set, wanted := setAttr(in)
	a, kept, err := f.written.keepAttr(ctx, &in.InHeader, set, &wanted, f.cacheTime)
	if err == nil && !kept {
		a, err = f.client.SetAttr(ctx, cred(&in.InHeader), ino(&in.InHeader), set, wanted)
	}
	if err != nil {
		return status(err)
	}
	f.attr(&in.InHeader, out, &a)
	if kept { // the times change when the content is ordered
		out.SetTimeout(f.cacheTime)
	}
	return fuse.OK
}

// setBits maps the kernel's bits of attributes to those of package meta.
var setBits = [...]struct{ kernel, ours uint32 }{
	{fuse.FATTR_MODE, meta.SetMode}, {fuse.FATTR_UID, meta.SetUID}, {fuse.FATTR_GID, meta.SetGID},
	{fuse.FATTR_SIZE, meta.SetSize}, {fuse.FATTR_ATIME, meta.SetAtime}, {fuse.FATTR_MTIME, meta.SetMtime},
	{fuse.FATTR_ATIME_NOW, meta.SetAtimeNow}, {fuse.FATTR_MTIME_NOW, meta.SetMtimeNow},
	{fuse.FATTR_CTIME, meta.SetCtime}, {fuse.FATTR_KILL_SUIDGID, meta.KillSetID},
}

// setAttr decodes the attributes to set.
func setAttr(in *fuse.SetAttrIn) (set uint32, a posix.Attr) {
	for _, bit := range setBits {
		if in.Valid&bit.kernel != 0 {
			set |= bit.ours
		}
	}
	a.Mode, a.UID, a.GID, a.Size = posix.Mode(in.Mode).Perm(), in.Owner.Uid, in.Owner.Gid, in.Size
	a.Atime, a.Mtime, a.Ctime = join(in.Atime, in.Atimensec), join(in.Mtime, in.Mtimensec), join(in.Ctime, in.Ctimensec)
	return set, a
}

func (f *fileSystem) StatFs(cancel <-chan struct{}, header *fuse.InHeader, out *fuse.StatfsOut) fuse.Status {
	ctx, end := f.waits.reading(cancel, header.Pid)
	defer end()
	u, err := f.client.StatFS(ctx, ino(header))
	if err != nil {
		return status(err)
	}
	const unit = 4096
	used, free := (u.Used+unit-1)/unit, u.Free/unit
	out.Bsize, out.Frsize, out.NameLen = unit, unit, posix.MaxName
	out.Blocks, out.Bfree, out.Bavail = used+free, free, free
	out.Files = 1 << posix.CounterBits
	out.Ffree = out.Files - u.Inodes
	return fuse.OK
}
