package primcast

import (
	"cmp"
	"container/heap"

	"github.com/globalfs/globalfs/pkg/multicast"
)

// Epoch is a reign of one leader in a group. Epochs of different groups are
// not related.
type Epoch struct {
	Number uint64
	Leader multicast.ProcessID
}

// Compare orders the epochs of a group.
func (e Epoch) Compare(other Epoch) int {
	return cmp.Or(cmp.Compare(e.Number, other.Number), cmp.Compare(e.Leader, other.Leader))
}

// State is a process's part in its group (line 8).
type State uint8

// The states of a process. Candidate and Promised are passed through in a
// primary change.
const (
	Primary State = iota
	Follower
	Candidate
	Promised
)

// entry is what M says of one message: whether START was received, the ACKs for each
// destination group, and where it is in T.
type entry struct {
	multicast.Message
	payload bool // the content is here (line 25)

	locals  []local // of Dest, in its order
	decided int     // how many of them are

	proposed bool // in T
	epoch    Epoch
	ts       multicast.Timestamp // ts in T
	position uint64              // in T

	final     multicast.Timestamp // final-ts once all locals are decided, else 0
	bound     multicast.Timestamp // min-ts as far as it matters, see deliver.go
	delivered bool
	index     int // in the heap of pending messages
}

// local is what is known of local-ts(m, h): who of h acknowledged it in one epoch.
type local struct {
	epoch   Epoch
	ts      multicast.Timestamp
	ackers  uint64 // bit i: the i-th member of h
	decided bool
}

// key is the place of m in the delivery order as far as it is known.
func (m *entry) key() multicast.Position {
	return multicast.Position{Final: m.bound, ID: m.ID}
}

// pendingHeap holds the messages of T that are not delivered, the lowest key first.
type pendingHeap []*entry

func (h pendingHeap) Len() int           { return len(h) }
func (h pendingHeap) Less(i, j int) bool { return h[i].key().Compare(h[j].key()) < 0 }
func (h pendingHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

// Push is for package heap.
func (h *pendingHeap) Push(x any) {
	m := x.(*entry)
	m.index = len(*h)
	*h = append(*h, m)
}

// Pop is for package heap.
func (h *pendingHeap) Pop() any {
	last := (*h)[len(*h)-1]
	(*h)[len(*h)-1] = nil
	*h = (*h)[:len(*h)-1]
	return last
}

var _ heap.Interface = (*pendingHeap)(nil)

// said is something of the primary that waits for its turn: it is taken in
// its order, and an ACK only once the payload is here.
type said struct {
	ack *ack // nil: only a clock
	ts  multicast.Timestamp
}
