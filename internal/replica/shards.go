package replica

import (
	"fmt"
	"time"

	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/order"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// Partitions may be added to a running cluster. All replicas of all partitions first learn of the group of
// the new partition (AddGroups), which is not replicated state. Its replicas start after that. Then the
// replicas of the region are told to spread new directories over it, too (SpreadOver): the leader of each
// partition orders an entry, and the directories of later entries may go to the new partition. So a command
// names a partition only after all replicas of all partitions know its group.

// entryShards adds partitions to those over which new directories spread.
const entryShards order.Kind = 11

// shardsAgain is the time between two proposals for the shards.
const shardsAgain = time.Second

// shards are the partitions that the replica knows, and those over which the new directories of the region
// are to spread.
type shards struct {
	orders     *order.Orders
	machine    *meta.Machine
	partitions int // partitions
	proposal   []uint16
	wakeAt     time.Duration // of the next proposal; 0: there is none to make here
}

// AddGroups makes the groups of new partitions known, between two steps: groups are those of all partitions.
func (s *shards) AddGroups(groups []multicast.Group) error {
	for s.partitions < len(groups) {
		if err := s.orders.AddGroup(groups[s.partitions]); err != nil {
			return fmt.Errorf("partition %d: %w", groups[s.partitions].ID, err)
		}
		s.partitions++
	}
	return nil
}

// SpreadOver has the partition spread new directories over more partitions of its region.
func (s *shards) SpreadOver(wanted []uint16) { s.proposal = wanted }

// Spread returns the number of partitions over which new directories spread.
func (s *shards) Spread() int { return len(meta.Shards(s.machine)) }

// order orders the wanted shards if the partition has fewer. Only the leader does: the entry says the same
// wherever it comes from, and is ordered again if it was lost.
func (s *shards) order(now time.Duration) {
	if len(s.proposal) <= s.Spread() || !s.orders.Leads() {
		s.wakeAt = 0
		return
	}
	if s.wakeAt != 0 && now < s.wakeAt {
		return
	}
	s.wakeAt = now + shardsAgain
	s.orders.Propose(order.Entry{Kind: entryShards, Body: meta.AppendShards(nil, s.proposal)})
}

// add executes an entry with shards. An entry that was ordered twice has no effect.
func (s *shards) add(body []byte) error {
	wanted, err := meta.DecodeShards(body)
	if err != nil {
		return fmt.Errorf("shards: %w: %w", err, order.ErrVersion)
	}
	meta.AddShards(s.machine, wanted)
	return nil
}
