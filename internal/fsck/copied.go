package fsck

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"iter"
	"slices"

	"github.com/globalfs/globalfs/internal/meta"
)

// pageBytes is the length at which a page ends. A search reads a page from its begin.
const pageBytes = 16 << 10

// copied is the metadata of a partition as a running cluster has sent it: keys with their values, in
// order. It takes hardly more memory than these. A search reads a page, and the checks search little.
type copied struct {
	pages [][]byte // of pairs: the lengths of key and value as varints, the key, the value
	last  []byte   // key
}

// add adds a page of pairs, which must follow those before.
func (c *copied) add(pairs []meta.Pair) error {
	var page []byte
	for _, p := range pairs {
		if bytes.Compare(p.Key, c.last) <= 0 {
			return fmt.Errorf("a server has sent key %x after key %x", p.Key, c.last)
		}
		page = binary.AppendUvarint(binary.AppendUvarint(page, uint64(len(p.Key))), uint64(len(p.Value)))
		page = append(append(page, p.Key...), p.Value...)
		c.last = p.Key
		if len(page) >= pageBytes {
			c.pages, page = append(c.pages, bytes.Clone(page)), page[:0]
		}
	}
	if len(page) > 0 {
		c.pages = append(c.pages, bytes.Clone(page))
	}
	c.last = bytes.Clone(c.last)
	return nil
}

// next returns the first pair of a page, and the rest of the page.
func next(page []byte) (key, value, rest []byte) {
	k, n := binary.Uvarint(page)
	v, m := binary.Uvarint(page[n:])
	page = page[n+m:]
	return page[:k:k], page[k : k+v : k+v], page[k+v:]
}

// Get implements meta.Reader.
func (c *copied) Get(key []byte) []byte {
	for found, value := range c.Scan(key, nil) {
		if bytes.Equal(found, key) {
			return value
		}
		break
	}
	return nil
}

// Scan implements meta.Reader.
func (c *copied) Scan(from, to []byte) iter.Seq2[[]byte, []byte] {
	return func(yield func(key, value []byte) bool) {
		at, found := slices.BinarySearchFunc(c.pages, from, func(page, from []byte) int {
			first, _, _ := next(page)
			return bytes.Compare(first, from)
		})
		if !found && at > 0 {
			at-- // the page before may contain from
		}
		for _, page := range c.pages[at:] {
			for len(page) > 0 {
				var key, value []byte
				key, value, page = next(page)
				if bytes.Compare(key, from) < 0 {
					continue
				}
				if to != nil && bytes.Compare(key, to) >= 0 || !yield(key, value) {
					return
				}
			}
		}
	}
}
