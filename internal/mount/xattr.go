package mount

import (
	"strings"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
)

// kept reports whether attributes of this name are stored: see "Limits".
func kept(name string) bool {
	return strings.HasPrefix(name, "user.") || strings.HasPrefix(name, "trusted.")
}

// copyOut returns an attribute's value, or only its length if there is no room at all.
func copyOut(dest, value []byte) (uint32, fuse.Status) {
	if len(dest) != 0 && len(value) > len(dest) {
		return 0, status(posix.ERANGE)
	}
	copy(dest, value)
	return uint32(len(value)), fuse.OK
}

func (f *fileSystem) GetXAttr(cancel <-chan struct{}, header *fuse.InHeader, name string, dest []byte) (uint32, fuse.Status) {
	ctx, end := f.waits.reading(cancel, header.Pid)
	defer end()
	var value []byte
	err := error(posix.EOPNOTSUPP) // ls asks for ACLs of every file: this needs no query
	switch {
	case kept(name):
		value, err = f.client.GetXattr(ctx, ino(header), name)
	case isControl(name):
		value, err = f.getControl(ctx, header, name)
	}
	if err != nil {
		return 0, status(err)
	}
	return copyOut(dest, value)
}

func (f *fileSystem) ListXAttr(cancel <-chan struct{}, header *fuse.InHeader, dest []byte) (uint32, fuse.Status) {
	ctx, end := f.waits.reading(cancel, header.Pid)
	defer end()
	names, err := f.client.ListXattr(ctx, ino(header))
	if err != nil {
		return 0, status(err)
	}
	return copyOut(dest, names)
}

func (f *fileSystem) SetXAttr(cancel <-chan struct{}, in *fuse.SetXAttrIn, name string, data []byte) fuse.Status {
	switch name {
	case XattrWait: // it ends with its program: 'globalfs wait --timeout' must not take longer
		ctx, end := f.waits.until(cancel)
		defer end()
		return status(f.wait(ctx, string(data)))
	case XattrGC:
		ctx, end := f.waits.reading(cancel, in.Pid)
		defer end()
		return status(f.setGC(ctx, &in.InHeader, string(data)))
	}
	ctx, end := f.waits.changing(cancel, &in.InHeader)
	defer end()
	switch {
	case isControl(name):
		return status(f.setControl(ctx, &in.InHeader, name, data))
	case !kept(name):
		return status(posix.EOPNOTSUPP)
	}
	var flags uint32
	if in.Flags&unix.XATTR_CREATE != 0 {
		flags |= meta.XattrCreate
	}
	if in.Flags&unix.XATTR_REPLACE != 0 {
		flags |= meta.XattrReplace
	}
	return status(f.client.SetXattr(ctx, cred(&in.InHeader), ino(&in.InHeader), name, data, flags))
}

func (f *fileSystem) RemoveXAttr(cancel <-chan struct{}, header *fuse.InHeader, name string) fuse.Status {
	ctx, end := f.waits.changing(cancel, header)
	defer end()
	switch {
	case name == XattrRegion || name == XattrPlace:
		return status(f.setControl(ctx, header, name, nil))
	case !kept(name):
		return status(posix.EOPNOTSUPP)
	}
	return status(f.client.RemoveXattr(ctx, cred(header), ino(header), name))
}
