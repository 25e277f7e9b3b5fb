package meta

import (
	"encoding/binary"
	"iter"

	"github.com/globalfs/globalfs/internal/posix"
)

// Keys is the store that a Machine lives in: ordered keys, of which meta owns those with a first byte below
// 0x40. Its methods return no errors: after an error its answers may be wrong, and the caller that commits
// must find this out and answer nothing.
type Keys interface {
	// Get gives the value of key, nil if it is absent; the caller must not change it.
	Get(key []byte) []byte
	// Set copies both.
	Set(key, value []byte)
	Delete(key []byte)
	// Scan yields the keys of [from, to) in order; a nil to means all keys that follow. The yielded slices
	// are valid until the next step. The loop may write: a key behind it is not given again.
	Scan(from, to []byte) iter.Seq2[[]byte, []byte]
}

// First bytes of the keys. The formats are in the package comment.
const (
	prefixState byte = 1 + iota
	prefixInode
	prefixDirent
	prefixCookie
	prefixExtent
	prefixXattr
	prefixOrphan
	prefixBlock
	prefixDropped
	prefixForwarding
	prefixUndecided
	prefixPost
)

// Of placement.
const (
	prefixRule      byte = 0x0d
	prefixPlacement byte = 0x0e
	prefixTask      byte = 0x0f
)

// Of locks on files: lock.go.
const prefixLock byte = 0x10

// Of numbers for inodes (reserve.go), and of the exchange with other partitions (peer.go).
const (
	prefixReserved byte = 0x11
	prefixPeer     byte = 0x12
)

// Of the shards of the partition's region: shards.go.
const prefixShards byte = 0x13

var stateKey = []byte{prefixState}

func numberKey(prefix byte, n uint64) []byte {
	return binary.BigEndian.AppendUint64(append(make([]byte, 0, 9), prefix), n)
}

func inodeKey(ino posix.Ino) []byte  { return numberKey(prefixInode, uint64(ino)) }
func orphanKey(ino posix.Ino) []byte { return numberKey(prefixOrphan, uint64(ino)) }

func forwardingKey(ino posix.Ino) []byte { return numberKey(prefixForwarding, uint64(ino)) }

// nameKey is the key of a dirent or an xattr.
func nameKey(prefix byte, ino posix.Ino, name string) []byte {
	k := append(make([]byte, 0, 9+len(name)), prefix)
	return append(binary.BigEndian.AppendUint64(k, uint64(ino)), name...)
}

// placeKey is the key of a cookie or an extent.
func placeKey(prefix byte, ino posix.Ino, n uint64) []byte {
	k := append(make([]byte, 0, 17), prefix)
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(k, uint64(ino)), n)
}

func blockKey(id posix.BlockID) []byte {
	return append(append(make([]byte, 0, 17), prefixBlock), id[:]...)
}

// after is the first key behind all that begin with prefix and ino.
func after(prefix byte, ino posix.Ino) []byte {
	if ino+1 == 0 {
		return []byte{prefix + 1}
	}
	return numberKey(prefix, uint64(ino+1))
}

// inoOf reads the inode number out of a key that holds one.
func inoOf(key []byte) posix.Ino { return posix.Ino(binary.BigEndian.Uint64(key[1:])) }

// placeOf reads the second number out of a placeKey.
func placeOf(key []byte) uint64 { return binary.BigEndian.Uint64(key[9:]) }
