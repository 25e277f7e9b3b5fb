package mount

import (
	"syscall"

	"github.com/globalfs/globalfs/internal/client"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/hanwen/go-fuse/v2/fuse"
)

func (f *fileSystem) Create(cancel <-chan struct{}, input *fuse.CreateIn, name string, out *fuse.CreateOut) fuse.Status {
	var flags uint32
	if input.Flags&syscall.O_EXCL != 0 {
		flags |= meta.Exclusive
	}
	if input.Flags&syscall.O_TRUNC != 0 {
		flags |= meta.Truncate
	}
	a, err := f.client.Create(request(cancel), cred(&input.InHeader), at(&input.InHeader, name), posix.Mode(input.Mode), flags)
	if err != nil {
		return status(err)
	}
	f.entry(&out.EntryOut, &a)
	return fuse.OK
}

func (f *fileSystem) Open(cancel <-chan struct{}, input *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	if _, err := f.client.Open(request(cancel), ino(&input.InHeader)); err != nil {
		return status(err)
	}
	// Whoever opens a file sees what others have written before: the size that the kernel remembers may
	// be older. It asks again before the first read.
	f.server.InodeNotify(input.NodeId, -1, 0)
	return fuse.OK
}

func (f *fileSystem) Release(_ <-chan struct{}, input *fuse.ReleaseIn) {
	f.client.Release(ino(&input.InHeader))
}

func (f *fileSystem) Read(cancel <-chan struct{}, input *fuse.ReadIn, buf []byte) (fuse.ReadResult, fuse.Status) {
	n, err := f.client.Read(request(cancel), ino(&input.InHeader), buf[:min(len(buf), int(input.Size))], input.Offset)
	if err != nil {
		return nil, status(err)
	}
	return fuse.ReadResultData(buf[:n]), fuse.OK
}

// Write gives the data to the client. The offset of an append is chosen when it is ordered: the one that
// the kernel took from its own idea of the size may be old. The kernel sends no O_APPEND for pages that
// a shared mapping has changed.
func (f *fileSystem) Write(cancel <-chan struct{}, input *fuse.WriteIn, data []byte) (uint32, fuse.Status) {
	written, err := f.client.Write(request(cancel), cred(&input.InHeader), client.Write{
		Ino: ino(&input.InHeader), Offset: input.Offset, Data: data,
		Append: input.Flags&syscall.O_APPEND != 0 && input.WriteFlags&fuse.WRITE_CACHE == 0,
	})
	if written.Bytes > 0 {
		return uint32(written.Bytes), fuse.OK
	}
	return 0, status(err)
}

// Flush, Fsync and FsyncDir have nothing to do: updates were acknowledged by a quorum before their system calls
// returned, as durably as the servers are set up to be.
func (f *fileSystem) Flush(<-chan struct{}, *fuse.FlushIn) fuse.Status { return fuse.OK }

// Fsync: see Flush.
func (f *fileSystem) Fsync(<-chan struct{}, *fuse.FsyncIn) fuse.Status { return fuse.OK }

// FsyncDir: see Flush.
func (f *fileSystem) FsyncDir(<-chan struct{}, *fuse.FsyncIn) fuse.Status { return fuse.OK }

// The whences of lseek(2) that the kernel asks about.
const (
	seekData = 3
	seekHole = 4
)

func (f *fileSystem) Lseek(cancel <-chan struct{}, in *fuse.LseekIn, out *fuse.LseekOut) fuse.Status {
	seek := f.client.SeekData
	if in.Whence == seekHole {
		seek = f.client.SeekHole
	} else if in.Whence != seekData {
		return status(posix.EINVAL)
	}
	var err error
	out.Offset, err = seek(request(cancel), ino(&in.InHeader), in.Offset)
	return status(err)
}

// The flags of fallocate(2).
const (
	fallocateKeepSize  = 0x01
	fallocatePunchHole = 0x02
	fallocateZeroRange = 0x10
)

func (f *fileSystem) Fallocate(cancel <-chan struct{}, input *fuse.FallocateIn) fuse.Status {
	var flags uint32
	switch input.Mode &^ fallocateKeepSize {
	case 0:
	case fallocatePunchHole:
		flags = meta.FallocatePunch
	case fallocateZeroRange:
		flags = meta.FallocateZero
	default:
		return status(posix.EOPNOTSUPP)
	}
	if input.Mode&fallocateKeepSize != 0 {
		flags |= meta.FallocateKeepSize
	}
	return status(f.client.Fallocate(request(cancel), cred(&input.InHeader), ino(&input.InHeader), input.Offset, input.Length, flags))
}
