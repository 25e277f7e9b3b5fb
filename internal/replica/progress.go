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

// stored is the stored part of the progress (I1). The number of executed entries is in the vector.
type stored struct {
	position multicast.Position // position of the last executed delivery of the own order
	time     posix.Time         // highest time of an executed entry
}

// progress is the progress of a replica, with the maintenance that is due.
type progress struct {
	stored
	covered        multicast.Position // position up to which the store is durable
	coveredBetween multicast.Progress // positions of the order between partitions up to which the store is durable
	orderedAt      time.Duration      // time of the last executed delivery, on the monotonic clock
	sinceSync      int                // number of deliveries since the last sync of the store
	syncAt         time.Duration      // time of the next sync of the store; 0: none
	commitAt       time.Duration      // time of the next commit to the store; 0: none
	reapAgain      bool               // more inodes can be reaped
	reaper         reaper
	floor          floor
}

var positionKey = []byte{0x40}

// save stores the progress in the same batch as the deliveries that it counts.
func (r *Replica) save() {
	b := ask.AppendPosition(nil, r.progress.position)
	r.keys.Set(positionKey, varint.AppendInt(b, int64(r.progress.time)))
	r.cross.Save()
}

// cover records that the store is durable up to the present position.
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

// Positions returns the positions in both orders up to which the state in keys has executed deliveries. Cores
// for this state must deliver everything after them.
func Positions(keys meta.Keys) (own multicast.Position, between multicast.Progress, err error) {
	p, err := loadProgress(keys)
	if err != nil {
		return own, between, err
	}
	between, err = cross.Relayed(keys)
	return p.position, between, err
}
