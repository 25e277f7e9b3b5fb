package replica

import (
	"fmt"
	"time"

	"github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/internal/cross"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/varint"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// stored is the progress of I1, beside the count in the vector.
type stored struct {
	position multicast.Position // of the last executed delivery of the partition's own order
	time     posix.Time         // highest time of an entry
}

// progress is the progress of a replica, with its pending maintenance.
type progress struct {
	stored
	covered        multicast.Position // of position, durable
	coveredBetween multicast.Progress // of the relayed positions, durable
	orderedAt      time.Duration      // when the last delivery was executed
	sinceSync      int                // deliveries
	syncAt         time.Duration      // 0: nothing to sync
	commitAt       time.Duration      // 0: nothing to commit
	reapAgain      bool               // more inodes can be reaped
}

var positionKey = []byte{0x40}

// save stores the progress in the batch of the deliveries that it counts.
func (r *Replica) save() {
	b := ask.AppendPosition(nil, r.progress.position)
	r.keys.Set(positionKey, varint.AppendInt(b, int64(r.progress.time)))
	r.cross.Save()
}

// cover notes that the store is durable.
func (r *Replica) cover() {
	r.progress.covered, r.progress.coveredBetween = r.progress.position, r.cross.Relayed()
}

func loadProgress(keys meta.Keys) (p stored, err error) {
	b := keys.Get(positionKey)
	if b == nil {
		return p, nil
	}
	r := varint.NewReader(b)
	p.position, p.time = ask.ReadPosition(r), posix.Time(r.Int())
	if err := r.Done(); err != nil {
		return p, fmt.Errorf("stored position: %w", err)
	}
	return p, nil
}

// Positions returns the positions of the state in keys in the order of the partition and in the order between
// partitions: cores made for it must deliver the entries after them.
func Positions(keys meta.Keys) (own multicast.Position, between multicast.Progress, err error) {
	p, err := loadProgress(keys)
	if err != nil {
		return own, between, err
	}
	between, err = cross.Relayed(keys)
	return p.position, between, err
}

// maxReap bounds the inodes that one entry reaps.
const maxReap = 512

// reap removes unlinked inodes that no session can hold (I4). If more are left, the replica that proposed
// this entry continues.
func (r *Replica) reap(mine bool) {
	seen, held := r.sessions.Unused(r.cross.Count())
	reaped := 0
	for after := posix.Ino(0); reaped < maxReap; {
		orphans := r.machine.Orphans(after, maxReap)
		for _, o := range orphans {
			after = o.Ino
			if o.Counter <= seen && !held[o.Ino] && reaped < maxReap {
				r.machine.Reap(o.Ino, r.progress.time)
				reaped++
			}
		}
		if len(orphans) < maxReap {
			break
		}
	}
	if reaped == maxReap && mine {
		r.progress.reapAgain = true
	}
}
