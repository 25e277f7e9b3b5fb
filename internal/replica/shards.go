package replica

import (
	"fmt"
	"time"

	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/order"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// Partitions may be added to a running cluster in three steps. First all replicas of all partitions learn of
// the group of the new partition (AddGroups), which is not replicated state. Then the replicas of the new
// partition start. Finally the replicas of the region are requested to spread new directories over the new
// partition, too (SpreadOver): the leader of each partition orders an entry, and directories of later entries
// may go to the new partition. So a command names a partition only after all replicas of all partitions know
// its group.

// entryShards adds partitions over which new directories spread.
const entryShards order.Kind = 11

// shardsAgain is the time between two proposals for the shards.
const shardsAgain = time.Second

// shards are the partitions that the replica knows, and those over which new directories of the region must
// spread.
type shards struct {
	orders     *order.Orders
	machine    *meta.Machine
	partitions int // number of partitions that the replica knows
	proposal   []uint16
	wakeAt     time.Duration // time of the next proposal; 0: this replica has none to make
}

// AddGroups adds the groups of new partitions, between two steps. groups has those of all partitions.
func (s *shards) AddGroups(groups []multicast.Group) error {
	for s.partitions < len(groups) {
		if err := s.orders.AddGroup(groups[s.partitions]); err != nil {
			return fmt.Errorf("partition %d: %w", groups[s.partitions].ID, err)
		}
		s.partitions++
	}
	return nil
}

// SpreadOver makes the partition spread new directories over the wanted partitions of its region.
func (s *shards) SpreadOver(wanted []uint16) { s.proposal = wanted }

// Spread returns the number of partitions over which new directories spread.
func (s *shards) Spread() int { return len(meta.Shards(s.machine)) }

// order proposes the wanted shards if the partition has fewer. Only the leader does so. The entry is the same
// from any replica, and is proposed again if it was lost.
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

// add executes an entry with shards. A repeated entry has no effect.
func (s *shards) add(body []byte) error {
	wanted, err := meta.DecodeShards(body)
	if err != nil {
		return fmt.Errorf("shards: %w: %w", err, order.ErrVersion)
	}
	meta.AddShards(s.machine, wanted)
	return nil
}
