package meta

import (
	"encoding/binary"
	"iter"

	"github.com/globalfs/globalfs/internal/posix"
)

// Keys is the ordered store in which a Machine keeps its state. Keys with a first byte below 0x40 belong to
// this package. The methods return no errors: after an error of the store, results may be wrong. The caller
// that commits must detect the error and answer nothing.
type Keys interface {
	// Get returns the value of key; nil if it is absent. The caller must not change it.
	Get(key []byte) []byte
	// Set stores copies of key and value.
	Set(key, value []byte)
	Delete(key []byte)
	// Scan yields the keys of [from, to) with their values, in order; a nil to means no upper bound. The
	// yielded slices are valid until the next iteration. The loop body may write: keys at or before the
	// present one are not yielded again.
	Scan(from, to []byte) iter.Seq2[[]byte, []byte]
}

// Reader is a Keys, or a copy of one, for functions that only read.
type Reader interface {
	Scanner
	Get(key []byte) []byte
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

// Keys of placement.
const (
	prefixRule      byte = 0x0d
	prefixPlacement byte = 0x0e
	prefixTask      byte = 0x0f
)

// The keys of locks on files (lock.go).
const prefixLock byte = 0x10

// The keys of reserved numbers (reserve.go), and of the exchange with other partitions (peer.go).
const (
	prefixReserved byte = 0x11
	prefixPeer     byte = 0x12
)

// The key of the shards of the partition's region (shards.go).
const prefixShards byte = 0x13

var stateKey = []byte{prefixState}

func numberKey(prefix byte, n uint64) []byte {
	return binary.BigEndian.AppendUint64(append(make([]byte, 0, 9), prefix), n)
}

func inodeKey(ino posix.Ino) []byte  { return numberKey(prefixInode, uint64(ino)) }
func orphanKey(ino posix.Ino) []byte { return numberKey(prefixOrphan, uint64(ino)) }

func forwardingKey(ino posix.Ino) []byte { return numberKey(prefixForwarding, uint64(ino)) }

// nameKey returns the key of an entry by name, or of an xattr.
func nameKey(prefix byte, ino posix.Ino, name string) []byte {
	k := append(make([]byte, 0, 9+len(name)), prefix)
	return append(binary.BigEndian.AppendUint64(k, uint64(ino)), name...)
}

// placeKey returns the key of an entry by cookie, or of an extent.
func placeKey(prefix byte, ino posix.Ino, n uint64) []byte {
	k := append(make([]byte, 0, 17), prefix)
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(k, uint64(ino)), n)
}

func blockKey(id posix.BlockID) []byte {
	return append(append(make([]byte, 0, 17), prefixBlock), id[:]...)
}

// after returns the first key after all keys that begin with prefix and ino.
func after(prefix byte, ino posix.Ino) []byte {
	if ino+1 == 0 {
		return []byte{prefix + 1}
	}
	return numberKey(prefix, uint64(ino+1))
}

// inoOf returns the inode number in a key.
func inoOf(key []byte) posix.Ino { return posix.Ino(binary.BigEndian.Uint64(key[1:])) }

// placeOf returns the second number of a placeKey.
func placeOf(key []byte) uint64 { return binary.BigEndian.Uint64(key[9:]) }

// keyAfter returns the first key after all keys that begin with prefix. prefix must not consist of 0xff only.
func keyAfter(prefix []byte) []byte {
	k := append([]byte(nil), prefix...)
	for i := len(k) - 1; ; i-- {
		if k[i]++; k[i] != 0 {
			return k[:i+1]
		}
	}
}
