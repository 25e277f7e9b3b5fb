package ask

import (
	"fmt"
	"time"

	"github.com/globalfs/globalfs/internal/varint"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// Status is the answer to AskStatus: the state of a replica as that replica knows it.
type Status struct {
	Partition uint16
	Self      multicast.ProcessID
	Leads     bool          // it leads its group, as far as it knows
	Seated    bool          // it is a member of its group in both orders; a replacement becomes one
	Applied   uint64        // number of commands of its partition that it has executed
	Undecided int           // number of commands of several partitions that wait for votes
	Histories uint64        // how often the partition has begun a new history, because it had lost entries
	Malformed uint64        // frames of other replicas that were malformed, since the replica began
	Age       time.Duration // upper bound of the age of its answers: since a quorum last ordered something
}

// Append appends the encoding of s.
func (s *Status) Append(b []byte) []byte {
	b = varint.AppendUint(b, s.Partition)
	b = varint.AppendUint(b, uint32(s.Self))
	b = varint.AppendUint(b, varint.Bit(s.Leads))
	b = varint.AppendUint(b, varint.Bit(s.Seated))
	b = varint.AppendUint(b, s.Applied)
	b = varint.AppendUint(b, uint64(s.Undecided))
	b = varint.AppendUint(b, s.Histories)
	b = varint.AppendUint(b, s.Malformed)
	return varint.AppendInt(b, int64(s.Age))
}

// DecodeStatus reads a status that Append has written. The error names the malformed part.
func DecodeStatus(b []byte) (Status, error) {
	r := varint.NewReader(b)
	s := Status{
		Partition: r.Uint16(), Self: multicast.ProcessID(r.Uint32()), Leads: r.Uint(1) != 0, Seated: r.Uint(1) != 0,
		Applied: r.Uint64(), Undecided: int(r.Uint(1 << 32)), Histories: r.Uint64(), Malformed: r.Uint64(),
		Age: time.Duration(r.Int()),
	}
	if err := r.Done(); err != nil {
		return Status{}, fmt.Errorf("status: %w", err)
	}
	return s, nil
}
