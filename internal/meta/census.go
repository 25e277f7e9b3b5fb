package meta

import (
	"iter"

	"github.com/globalfs/globalfs/internal/posix"
)

// Census counts the stored items of a partition.
type Census struct {
	Inodes  uint64
	Entries uint64
	Blocks  uint64 // without the queued ones
}

// Count counts all stored items, damaged or not.
func Count(keys Reader) (c Census) {
	for range keys.Scan([]byte{prefixInode}, []byte{prefixInode + 1}) {
		c.Inodes++
	}
	for range keys.Scan([]byte{prefixDirent}, []byte{prefixDirent + 1}) {
		c.Entries++
	}
	for _, value := range keys.Scan([]byte{prefixBlock}, []byte{prefixBlock + 1}) {
		if k, err := decodeBlock(value); err == nil && k.held() {
			c.Blocks++
		}
	}
	return c
}

// Held yields each block in use, in the order of ids, with an inode that has an extent of it. The inode is 0
// if the block has a record and no extent here refers to it. Held needs memory for all blocks.
func Held(keys Reader) iter.Seq2[posix.BlockID, posix.Ino] {
	return func(yield func(posix.BlockID, posix.Ino) bool) {
		owners := map[posix.BlockID]posix.Ino{}
		for key, value := range keys.Scan([]byte{prefixExtent}, []byte{prefixExtent + 1}) {
			if len(key) != 17 {
				continue
			}
			if e, err := decodeExtent(placeOf(key), value); err == nil && e.Data == nil {
				owners[e.Block] = inoOf(key)
			}
		}
		for key, value := range keys.Scan([]byte{prefixBlock}, []byte{prefixBlock + 1}) {
			k, err := decodeBlock(value)
			if len(key) != 17 || err != nil || !k.held() {
				continue
			}
			if id := posix.BlockID(key[1:]); !yield(id, owners[id]) {
				return
			}
		}
	}
}
