package sim

import (
	"fmt"
	"time"

	"github.com/globalfs/globalfs/internal/kv"
	"github.com/globalfs/globalfs/internal/replica"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// Every tree run compares the replicas by digests: the first replica of a partition that takes a digest after
// an entry defines the digest of the others (invariant I6 of package replica). The kept digest of a store is
// compared with the digest of its keys at each start of a replica, and at the end.

// treeDigestPeriod is short, so that a difference is found near its cause.
const treeDigestPeriod = 50 * time.Millisecond

const digestsCompared treeMark = "replicas had the same digest after the same entry"

// treeDigests are the digests of a run, by place.
type treeDigests map[digestPlace]takenDigest

type digestPlace struct {
	partition uint16
	entry     multicast.MessageID
}

type takenDigest struct {
	replica.Digest
	by multicast.ProcessID
}

// forget forgets the digests of the partition of a replica: entries may be lost, and come again at other
// places.
func (d treeDigests) forget(of multicast.ProcessID, r *tree) {
	group, _ := r.seat(of)
	for place := range d {
		if place.partition == group.partition() {
			delete(d, place)
		}
	}
}

// compareDigests compares the last digest of a replica.
func (n *treeNode) compareDigests() {
	for _, d := range n.Replica.Digests() {
		place := digestPlace{n.partition, d.Entry}
		first, known := n.run.digests[place]
		switch {
		case !known:
			n.run.digests[place] = takenDigest{d, n.self}
		case first.Digest != d:
			n.run.fail("partition %d: replica %d has digest %v after entry %d (%v), and replica %d has %v after entry %d",
				n.partition, n.self, d.Sum, d.Count, d.Entry, first.by, first.Sum, first.Count)
		case first.by != n.self:
			n.run.reach[digestsCompared]++
		}
	}
}

// verifyDigest compares the kept digest of the store of a starting replica with the digest of its keys.
func (n *treeNode) verifyDigest() error {
	kept := n.keys.Digest()
	n.Replica.VerifyDigest(kept, kept)
	return soundDigest(n.keys.Store)
}

func soundDigest(keys *kv.Store) error {
	if read, kept := replica.SumStore(keys), keys.Digest(); read != kept {
		return fmt.Errorf("the store has kept the digest %v, and its keys have %v", kept, read)
	}
	return nil
}
