package replica

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/globalfs/globalfs/internal/digest"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/session"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// Each replica takes digests of its store, and the digests of the replicas of a partition are compared
// (invariant I6). All replicas take them after the same entries: after each entry whose number is a multiple
// of digestEvery, and after the first entry in each Config.DigestPeriod by the time of the entries.
const (
	digestEvery = 4096
	keptDigests = 16
)

// DefaultDigestPeriod is the default of Config.DigestPeriod.
const DefaultDigestPeriod = 5 * time.Second

// digestKey holds the digest of the store.
var digestKey = []byte{0x49}

// Digest is the digest of a partition's state after an entry. Replicas that have executed the same entries
// have the same digest.
type Digest struct {
	Entry multicast.MessageID // the last executed entry
	Count uint64              // its number in the partition's own order
	Sum   digest.Sum
}

// digests are the last digests of a replica.
type digests struct {
	recent   []Digest
	verified bool // the digest was compared with the entries of the whole store
}

// isDigested reports whether a digest is taken after the present entry. before is the time of the order
// before that entry.
func (r *Replica) isDigested(before posix.Time) bool {
	period := func(t posix.Time) int64 { return int64(t) / int64(r.cfg.DigestPeriod) }
	return r.cross.Count()%digestEvery == 0 || period(r.progress.time) != period(before)
}

// takeDigest takes the digest after the entry id.
func (r *Replica) takeDigest(id multicast.MessageID) {
	r.save() // the progress is part of the state, and is otherwise saved once in a batch
	d := &r.digests
	if len(d.recent) == keptDigests {
		d.recent = append(d.recent[:0], d.recent[1:]...)
	}
	d.recent = append(d.recent, Digest{Entry: id, Count: r.cross.Count(), Sum: r.keys.Digest()})
}

// Digests returns the last digests, the oldest first; none until the store is verified.
func (r *Replica) Digests() []Digest {
	if !r.digests.verified {
		return nil
	}
	return append([]Digest(nil), r.digests.recent...)
}

// VerifyDigest compares the sum of all entries of the store (read, see SumStore) with the digest that the
// store maintained at the moment of the reading (claimed). If they differ, the store was changed without this
// replica, or by a version that keeps no digest. Then the digests are corrected by the difference.
func (r *Replica) VerifyDigest(read, claimed digest.Sum) {
	r.digests.verified = true
	difference := read.Sub(claimed)
	if difference == (digest.Sum{}) {
		return
	}
	r.keys.Correct(difference)
	for i := range r.digests.recent {
		r.digests.recent[i].Sum = r.digests.recent[i].Sum.Add(difference)
	}
}

// KeepDigest makes a store maintain the digest of its entries, as New does. A program that changes the store
// of a stopped replica must call it first.
func KeepDigest(keys Keys) error { return keys.KeepDigest(digestKey, partOf) }

// SumStore reads the whole store of a replica, and returns the sum of all entries that its digest covers.
func SumStore(store meta.Scanner) digest.Sum {
	return digest.Of(store.Scan(nil, nil), partOf)
}

// partOf returns the part of a stored entry that the digest covers: key and value, only the key, or nothing.
// Of a stored answer it covers only the key, because another version may encode the answer to the same update
// differently.
func partOf(key []byte) digest.Part {
	switch {
	case string(key) == string(digestKey) || string(key) == string(adoptedKey):
		return digest.None
	case session.IsAnswer(key):
		return digest.Key
	}
	return digest.Whole
}

// restore replaces the store by a snapshot of another replica's store, and stores record under adoptedKey. It
// fails if the digest in the snapshot is not the sum of its entries.
func (r *Replica) restore(snapshot io.Reader, record []byte) error {
	return r.keys.Replace(func(set func(key, value []byte) error) error {
		var read, hasher = digest.Sum{}, digest.Hasher{}
		var stored []byte
		err := meta.ReadSnapshot(snapshot, func(key, value []byte) error {
			switch {
			case string(key) == string(digestKey):
				stored = value
				return nil
			case string(key) == string(adoptedKey):
				return nil
			}
			read = read.Add(hasher.Counted(partOf(key), key, value))
			return set(key, value)
		})
		if err != nil {
			return fmt.Errorf("read snapshot: %w", err)
		}
		// A snapshot of an older version has no digest, or one of another scheme.
		if sum, carried := digest.Parse(stored); carried && read != sum {
			return fmt.Errorf("%w: its digest is %v, and its entries have %v: the store of the other replica is damaged", ErrNotNewer, sum, read)
		}
		return errors.Join(set(digestKey, read.Bytes()), set(adoptedKey, record))
	})
}
