package meta

import (
	"fmt"

	"github.com/globalfs/globalfs/internal/invariant"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/varint"
)

// inode is an inode as stored. Size is: of a file its bytes, of a directory its
// entries, of a symlink the bytes of its target.
type inode struct {
	posix.Attr
	names  uint64    // bytes of its xattrs' names as listed
	parent posix.Ino // of a directory; of "/" itself
	cookie uint64    // of a directory: the last one given
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
	b = varint.AppendInt(b, int64(n.Mtime-n.Ctime)) // mostly 0; may wrap, and back
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

// inode reads an inode. It returns EREMOTE if this partition is the home of the inode and the inode has moved
// to another one, EHELD if the inode is not made yet, and ESTALE for every other inode that is not here: its
// home knows its place.
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

// directory reads an inode that an operation needs to be a directory with a name.
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

// file reads an inode that an operation needs to be a regular file.
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
// ctime never goes back. So commands that change one directory need not keep each other away. A command that
// is older than the last change of the inode sets mtime only forward; so it does not undo the mtime that a
// later command has set.

// changed marks a change of the inode at t.
func (n *inode) changed(t posix.Time) { n.Ctime = max(n.Ctime, t) }

// modified records a change of the content of n at time t.
func (n *inode) modified(t posix.Time) {
	n.Mtime = n.merged(n.Mtime, t)
	n.changed(t)
}

// merged returns the new value of a time of n, which a command sets to t. old is its value before.
func (n *inode) merged(old, t posix.Time) posix.Time {
	if t >= n.Ctime {
		return t
	}
	return max(old, t)
}
