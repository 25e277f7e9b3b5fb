package kv

import (
	"bytes"

	"github.com/globalfs/globalfs/internal/digest"
)

// summed keeps the digest of a store up to date with its commits (K3).
type summed struct {
	at     []byte // the key of the stored digest
	part   func(key []byte) digest.Part
	sum    digest.Sum
	hasher digest.Hasher
}

// of returns the sum of a key with its value.
func (d *summed) of(key, value []byte) digest.Sum {
	if bytes.Equal(key, d.at) {
		return digest.Sum{}
	}
	return d.hasher.Counted(d.part(key), key, value)
}

// KeepDigest makes the store keep the digest of its entries from now on. part returns the part of the entry
// with a key that counts; the key at does not count. Each commit stores the digest under the key at. A store
// without a digest, or with one of another scheme, is read once. A store with a digest must have no commits
// without KeepDigest, except of keys that do not count.
func (s *Store) KeepDigest(at []byte, part func(key []byte) digest.Part) error {
	d := &summed{at: at, part: part}
	stored, err := s.base.get(at)
	if err == nil {
		var ok bool
		if d.sum, ok = digest.Parse(stored); !ok {
			err = s.base.scan(nil, nil, func(key, value []byte) bool {
				d.sum = d.sum.Add(d.of(key, value))
				return true
			})
		}
	}
	s.fail(err)
	s.summed = d
	return s.err
}

// Digest returns the digest of the store with its pending writes.
func (s *Store) Digest() digest.Sum {
	sum := s.summed.sum
	if len(s.pending.runs) == 0 {
		return sum
	}
	get, end := s.base.ascending()
	for _, run := range s.pending.runs {
		for _, e := range run {
			sum = s.changed(sum, e, get)
		}
	}
	s.fail(end())
	return sum
}

// changed returns sum after a pending write. get returns the committed value.
func (s *Store) changed(sum digest.Sum, e entry, get func(key []byte) ([]byte, error)) digest.Sum {
	d := s.summed
	if s.err != nil || bytes.Equal(e.key, d.at) || d.part(e.key) == digest.None {
		return sum
	}
	old, err := get(e.key)
	s.fail(err)
	if old != nil && e.value != nil && bytes.Equal(old, e.value) {
		return sum
	}
	if old != nil {
		sum = sum.Sub(d.of(e.key, old))
	}
	if e.value != nil {
		sum = sum.Add(d.of(e.key, e.value))
	}
	return sum
}

// Correct adds a difference to the digest, because the entries of the store do not have the digest. The next
// commit stores it.
func (s *Store) Correct(difference digest.Sum) {
	s.summed.sum = s.summed.sum.Add(difference)
}

// saveDigest adds the digest to the pending writes.
func (s *Store) saveDigest() {
	if s.summed == nil {
		return
	}
	s.summed.sum = s.Digest()
	s.Set(s.summed.at, s.summed.sum.Bytes())
}
