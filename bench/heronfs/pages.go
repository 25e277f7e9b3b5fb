package heronfs

import (
	"bytes"
	"encoding/binary"
	"hash/fnv"
	"slices"

	"github.com/globalfs/globalfs/internal/kv"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/varint"
	"github.com/globalfs/globalfs/pkg/heron"
)

const (
	pageCount = 512
	pageSize  = 2 << 10
)

// First bytes of the keys on pages (docs/formats.md).
const (
	prefixInode      = 0x02
	prefixName       = 0x03
	prefixForwarding = 0x0a
)

// inodeKey returns the key of an inode.
func inodeKey(ino posix.Ino) []byte {
	return binary.BigEndian.AppendUint64([]byte{prefixInode}, uint64(ino))
}

// dirKey returns the key of a name in a directory.
func dirKey(dir posix.Ino, name string) []byte {
	return append(binary.BigEndian.AppendUint64([]byte{prefixName}, uint64(dir)), name...)
}

// pageOf gives the page of a key; false: the key is on no page. An inode and its forwarding have one page.
func pageOf(key []byte) (page int, ok bool) {
	switch key[0] {
	case prefixInode, prefixName, prefixForwarding:
	default:
		return 0, false
	}
	h := fnv.New64a()
	h.Write(key[1:])
	return int(h.Sum64() % pageCount), true
}

// objectOf returns the object of a page of a partition.
func objectOf(partition uint16, page int) heron.ObjectID {
	return heron.ObjectID(page)<<16 | heron.ObjectID(partition)
}

// pair is a key with its value.
type pair struct{ key, value []byte }

// pages are the keys of a partition: a store, with copies of the keys on pages. It implements meta.Keys.
type pages struct {
	*kv.Store
	pairs   [pageCount][]pair // in the order of keys
	changed map[int]bool
}

// newPages gives the pages of an empty store. All of them have changed.
func newPages(keys *kv.Store) *pages {
	p := &pages{Store: keys, changed: map[int]bool{}}
	for i := range pageCount {
		p.changed[i] = true
	}
	return p
}

// search finds the position of a key in its page.
func (p *pages) search(page int, key []byte) (int, bool) {
	return slices.BinarySearchFunc(p.pairs[page], key, func(x pair, key []byte) int { return bytes.Compare(x.key, key) })
}

// Set implements meta.Keys.
func (p *pages) Set(key, value []byte) {
	p.Store.Set(key, value)
	page, ok := pageOf(key)
	if !ok {
		return
	}
	i, found := p.search(page, key)
	if !found {
		p.pairs[page] = slices.Insert(p.pairs[page], i, pair{})
	}
	p.pairs[page][i] = pair{bytes.Clone(key), bytes.Clone(value)}
	p.changed[page] = true
}

// Delete implements meta.Keys.
func (p *pages) Delete(key []byte) {
	p.Store.Delete(key)
	page, ok := pageOf(key)
	if !ok {
		return
	}
	if i, found := p.search(page, key); found {
		p.pairs[page] = slices.Delete(p.pairs[page], i, i+1)
		p.changed[page] = true
	}
}

// take gives the pages that have changed since the last call, as writes of objects of a partition.
func (p *pages) take(partition uint16) (writes []heron.Write) {
	for page := range pageCount {
		if p.changed[page] {
			writes = append(writes, heron.Write{ID: objectOf(partition, page), Value: encodePage(p.pairs[page])})
		}
	}
	clear(p.changed)
	return writes
}

func encodePage(all []pair) []byte {
	b := varint.AppendUint(nil, uint64(len(all)))
	for _, x := range all {
		b = varint.AppendBytes(varint.AppendBytes(b, x.key), x.value)
	}
	return b
}

func decodePage(b []byte) (all []pair, err error) {
	r := varint.NewReader(b)
	for n := r.Count(); n > 0 && r.Err() == nil; n-- {
		all = append(all, pair{r.Bytes(), r.Bytes()})
	}
	return all, r.Done()
}
