package replica

import (
	"fmt"
	"slices"
	"time"

	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/order"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// Partitions may be added to a running cluster. All replicas of all partitions first learn of the group of the
// new partition (AddGroups), which is not replicated state. Its replicas start after that. Then the replicas of
// the region are told to spread new directories over it, too (SpreadOver): the leader of each partition orders
// an entry, and the directories of later entries may go to the new partition. So a command names a partition
// only after all replicas of all partitions know its group.

// entryShards adds partitions to those over which new directories spread.
const entryShards order.Kind = 11

// shardsAgain is the time between two proposals for the shards.
const shardsAgain = time.Second

// shards are the partitions over which the new directories of the region are to spread.
type shards struct {
	wanted []uint16
	wakeAt time.Duration // of the next proposal; 0: there is none to make here
}

// Groups returns the number of partitions that the replica knows.
func (r *Replica) Groups() int { return len(r.cfg.Groups) }

// AddGroups makes the groups of new partitions known, between two steps: groups are those of all partitions.
func (r *Replica) AddGroups(groups []multicast.Group) error {
	for _, g := range groups[min(len(r.cfg.Groups), len(groups)):] {
		if err := r.orders.AddGroup(g); err != nil {
			return fmt.Errorf("partition %d: %w", g.ID, err)
		}
		r.cfg.Groups = append(slices.Clip(r.cfg.Groups), g)
	}
	return nil
}

// SpreadOver has the partition spread new directories over more partitions of its region.
func (r *Replica) SpreadOver(wanted []uint16) { r.shards.wanted = wanted }

// Spread returns the number of partitions over which new directories spread.
func (r *Replica) Spread() int { return len(r.machine.Shards()) }

// proposeShards orders the wanted shards if the partition has fewer. Only the leader does: the entry says the
// same wherever it comes from, and is ordered again if it was lost.
func (r *Replica) proposeShards() {
	s := &r.shards
	if len(s.wanted) <= len(r.machine.Shards()) || !r.orders.Leads() {
		s.wakeAt = 0
		return
	}
	if s.wakeAt != 0 && r.now.Mono < s.wakeAt {
		return
	}
	s.wakeAt = r.now.Mono + shardsAgain
	r.orders.Propose(order.Entry{Kind: entryShards, Body: meta.AppendShards(nil, s.wanted)})
}

// executeShards adds the shards of an entry. An entry that was ordered twice has no effect.
func (r *Replica) executeShards(body []byte) error {
	wanted, err := meta.DecodeShards(body)
	if err != nil {
		return fmt.Errorf("shards: %w: %w", err, order.ErrVersion)
	}
	r.machine.AddShards(wanted)
	return nil
}
