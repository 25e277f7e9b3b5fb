package mount

import (
	"context"
	"errors"
	"time"

	"github.com/globalfs/globalfs/internal/client"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/hanwen/go-fuse/v2/fuse"
)

// blockSize is what stat says is good to read and write at once: programs that heed it, as cp and cat do,
// then make few large requests.
const blockSize = 512 << 10

// status makes the kernel's answer of a client's error, by the one table of errnos.
func status(err error) fuse.Status {
	var code posix.Code
	switch {
	case err == nil:
		return fuse.OK
	case errors.As(err, &code):
		return fuse.Status(code.Errno())
	}
	return fuse.Status(posix.EIO.Errno())
}

// fill writes attributes as the kernel wants them.
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

func join(seconds uint64, nanoseconds uint32) posix.Time {
	return posix.Time(time.Unix(int64(seconds), int64(nanoseconds)).UnixNano())
}

func (f *fileSystem) entry(out *fuse.EntryOut, a *posix.Attr) {
	out.NodeId = uint64(a.Ino)
	fill(&out.Attr, a)
	out.SetEntryTimeout(f.cacheTime)
	out.SetAttrTimeout(f.cacheTime)
}

func (f *fileSystem) attr(out *fuse.AttrOut, a *posix.Attr) {
	fill(&out.Attr, a)
	out.SetTimeout(f.cacheTime)
}

func cred(h *fuse.InHeader) posix.Cred { return posix.Cred{UID: h.Uid, GID: h.Gid} }

func ino(h *fuse.InHeader) posix.Ino { return posix.Ino(h.NodeId) }

func at(h *fuse.InHeader, name string) client.Name { return client.Name{Dir: ino(h), Name: name} }

// request is the context of a kernel's request: it ends when the caller is interrupted.
func request(cancel <-chan struct{}) context.Context {
	return interruptible{context.Background(), cancel}
}

// interruptible is a context that a channel cancels, without a goroutine for each request.
type interruptible struct {
	context.Context
	cancel <-chan struct{}
}

func (i interruptible) Done() <-chan struct{} { return i.cancel }

func (i interruptible) Err() error {
	select {
	case <-i.cancel:
		return context.Canceled
	default:
		return nil
	}
}
