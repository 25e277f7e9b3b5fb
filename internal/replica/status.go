package replica

import (
	"fmt"
	"slices"
	"time"

	"github.com/globalfs/globalfs/internal/varint"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// Status is what a replica says of itself.
type Status struct {
	Partition uint16
	Self      multicast.ProcessID
	Leads     bool          // it leads its group, as far as it knows
	Seated    bool          // it is a member of its group in both orders: one that takes the place of another becomes it after a while
	Applied   uint64        // commands of its partition
	Undecided int           // commands of several partitions that wait for the votes of others
	Age       time.Duration // since it last learned that a quorum of its group ordered something: what it reads is not older
}

// Append appends the encoding of s.
func (s *Status) Append(b []byte) []byte {
	b = varint.AppendUint(b, s.Partition)
	b = varint.AppendUint(b, uint32(s.Self))
	b = varint.AppendUint(b, fresh(s.Leads))
	b = varint.AppendUint(b, fresh(s.Seated))
	b = varint.AppendUint(b, s.Applied)
	b = varint.AppendUint(b, uint64(s.Undecided))
	return varint.AppendInt(b, int64(s.Age))
}

// DecodeStatus reads a status.
func DecodeStatus(b []byte) (Status, error) {
	r := varint.NewReader(b)
	s := Status{
		Partition: r.Uint16(), Self: multicast.ProcessID(r.Uint32()), Leads: r.Uint(1) != 0, Seated: r.Uint(1) != 0,
		Applied: r.Uint64(), Undecided: int(r.Uint(1 << 32)), Age: time.Duration(r.Int()),
	}
	if err := r.Done(); err != nil {
		return Status{}, fmt.Errorf("status: %w", err)
	}
	return s, nil
}

func (r *Replica) status() Status {
	group := multicast.GroupID(r.cfg.Partition)
	s := Status{
		Partition: r.cfg.Partition, Self: r.cfg.Self, Leads: r.cores.local.Leads(),
		Seated:  slices.Contains(r.cores.local.Members(group), r.cfg.Self) && slices.Contains(r.cores.cross.Members(group), r.cfg.Self),
		Applied: r.counter(),
		// By the order's own time, and by the clock that does not jump: what is applied late is old.
		Age: max(0, r.now.Mono-r.orderedAt, time.Duration(r.now.Wall-int64(r.time))),
	}
	for _, c := range r.commands {
		if !c.decided {
			s.Undecided++
		}
	}
	return s
}
