package meta

import (
	"fmt"

	"github.com/globalfs/globalfs/internal/invariant"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/varint"
)

// inode is an inode as stored. Size is in bytes for a file, in entries for a directory, and in bytes of the
// target for a symlink.
type inode struct {
	posix.Attr
	names  uint64    // total bytes of the names of its xattrs, as ListXattr returns them
	parent posix.Ino // of a directory; of "/" itself
	cookie uint64    // of a directory: the highest cookie given so far
	target string    // of a symlink
}

func (n *inode) encode() []byte {
	b := make([]byte, 0, 64+len(n.target))
	b = varint.AppendUint(b, n.Mode)
	b = varint.AppendUint(b, n.Nlink)
	b = varint.AppendUint(b, n.UID)
	b = varint.AppendUint(b, n.GID)
	b = varint.AppendUint(b, n.Rdev)
	b = varint.AppendUint(b, n.Size)
	b = varint.AppendUint(b, n.Bytes)
	b = varint.AppendInt(b, int64(n.Ctime))
	b = varint.AppendInt(b, int64(n.Mtime-n.Ctime)) // mostly 0; the difference may overflow, and the decoder overflows back
	b = varint.AppendInt(b, int64(n.Atime-n.Ctime))
	b = varint.AppendUint(b, n.names)
	switch n.Mode.Type() {
	case posix.TypeDir:
		b = varint.AppendUint(b, n.parent)
		b = varint.AppendUint(b, n.cookie)
	case posix.TypeSymlink:
		b = varint.AppendBytes(b, n.target)
	}
	return b
}

func decodeInode(ino posix.Ino, b []byte) (inode, error) {
	r := varint.NewReader(b)
	n := inode{Attr: posix.Attr{
		Ino: ino, Mode: posix.Mode(r.Uint32()), Nlink: r.Uint32(), UID: r.Uint32(), GID: r.Uint32(), Rdev: r.Uint32(),
		Size: r.Uint64(), Bytes: r.Uint64(), Ctime: posix.Time(r.Int()),
	}}
	n.Mtime = n.Ctime + posix.Time(r.Int())
	n.Atime = n.Ctime + posix.Time(r.Int())
	n.names = r.Uint64()
	switch n.Mode.Type() {
	case posix.TypeDir:
		n.parent, n.cookie = posix.Ino(r.Uint64()), r.Uint64()
	case posix.TypeSymlink:
		n.target = r.String()
	}
	if err := r.Done(); err != nil {
		return inode{}, fmt.Errorf("stored inode %d: %w", ino, err)
	}
	return n, nil
}

// inode reads an inode. If it is not in this partition, the code is EREMOTE if this partition is its home and
// has a forwarding, EHELD if the inode is not made yet, and ESTALE otherwise: then its home knows more.
func (m *Machine) inode(ino posix.Ino) (inode, posix.Code) {
	b := m.keys.Get(inodeKey(ino))
	if b == nil {
		if _, away := m.forwarding(ino); away {
			return inode{}, posix.EREMOTE
		}
		if m.Reserved(ino) {
			return inode{}, posix.EHELD
		}
		return inode{}, posix.ESTALE
	}
	n, err := decodeInode(ino, b)
	invariant.Check(err == nil, "%v", err)
	return n, posix.OK
}

// directory reads an inode for an operation that needs a directory with a name.
func (m *Machine) directory(ino posix.Ino) (inode, posix.Code) {
	n, code := m.inode(ino)
	switch {
	case code != posix.OK:
		return n, code
	case !n.Mode.IsDir():
		return n, posix.ENOTDIR
	case n.Nlink == 0:
		return n, posix.ENOENT
	}
	return n, posix.OK
}

// file reads an inode for an operation that needs a regular file.
func (m *Machine) file(ino posix.Ino) (inode, posix.Code) {
	n, code := m.inode(ino)
	switch {
	case code != posix.OK:
		return n, code
	case n.Mode.IsDir():
		return n, posix.EISDIR
	case !n.Mode.IsRegular():
		return n, posix.EINVAL
	}
	return n, posix.OK
}

// save stores an inode.
func (m *Machine) save(n *inode) { m.keys.Set(inodeKey(n.Ino), n.encode()) }

// Times that no command sets explicitly merge: the result of two commands does not depend on their order, and
// ctime never goes back. So commands that change the same directory need no exclusive hold. If a command is
// older than the last change of the inode, it does not set mtime back, so it keeps an mtime that a later
// command has set.

// changed records a change of the inode at time t.
func (n *inode) changed(t posix.Time) { n.Ctime = max(n.Ctime, t) }

// modified records a change of the content of n at time t.
func (n *inode) modified(t posix.Time) {
	n.Mtime = n.merged(n.Mtime, t)
	n.changed(t)
}

// merged returns the new value of a time of n that a command sets to t. old is the value before.
func (n *inode) merged(old, t posix.Time) posix.Time {
	if t >= n.Ctime {
		return t
	}
	return max(old, t)
}
