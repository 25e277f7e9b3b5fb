package mount

import (
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/hanwen/go-fuse/v2/fuse"
)

// copyOut gives an attribute's value, or only its length if there is no room at all.
func copyOut(dest, value []byte) (uint32, fuse.Status) {
	if len(dest) != 0 && len(value) > len(dest) {
		return uint32(len(value)), status(posix.ERANGE)
	}
	copy(dest, value)
	return uint32(len(value)), fuse.OK
}

func (f *fileSystem) GetXAttr(cancel <-chan struct{}, header *fuse.InHeader, name string, dest []byte) (uint32, fuse.Status) {
	value, err := f.client.GetXattr(request(cancel), ino(header), name)
	if err != nil {
		return 0, status(err)
	}
	return copyOut(dest, value)
}

func (f *fileSystem) ListXAttr(cancel <-chan struct{}, header *fuse.InHeader, dest []byte) (uint32, fuse.Status) {
	names, err := f.client.ListXattr(request(cancel), ino(header))
	if err != nil {
		return 0, status(err)
	}
	return copyOut(dest, names)
}

// The flags of setxattr(2).
const (
	xattrCreate = 1 << iota
	xattrReplace
)

func (f *fileSystem) SetXAttr(cancel <-chan struct{}, input *fuse.SetXAttrIn, name string, data []byte) fuse.Status {
	var flags uint32
	if input.Flags&xattrCreate != 0 {
		flags |= meta.XattrCreate
	}
	if input.Flags&xattrReplace != 0 {
		flags |= meta.XattrReplace
	}
	return status(f.client.SetXattr(request(cancel), cred(&input.InHeader), ino(&input.InHeader), name, data, flags))
}

func (f *fileSystem) RemoveXAttr(cancel <-chan struct{}, header *fuse.InHeader, name string) fuse.Status {
	return status(f.client.RemoveXattr(request(cancel), cred(header), ino(header), name))
}
