package process

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/globalfs/globalfs/internal/driver"
	"github.com/globalfs/globalfs/internal/invariant"
	"github.com/globalfs/globalfs/internal/turn"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// saveEvery is the time between two saves of a state that survives the process. Unsaved deliveries are made
// again after a restart.
const saveEvery = 250 * time.Millisecond

// load is the task of a client.
type load struct {
	Outstanding int                   // at any time; 0: nothing more
	Messages    uint64                // in all; 0: until the next command
	Payload     int                   // bytes
	Dest        [][]multicast.GroupID // taken in turn
}

// command is an order of the parent to a running replica.
type command struct {
	Load *load `json:",omitempty"`
	Mark bool  // start the measurement anew
}

// state is the report of a replica on itself.
type state struct {
	Count      uint64
	Digest     uint64
	Senders    map[multicast.ProcessID]uint64
	Violations []string
	Submitted  uint64 // by the client of this process
	Completed  uint64
	Latency    map[int]uint64 // since the last mark
	Gap        time.Duration  // longest without a delivery since the last mark
}

// node is a replica of the state machine with the client of its process. It runs under a driver.
type node struct {
	self  multicast.ProcessID
	core  multicast.Core
	clock driver.Clock
	dir   string // "": the state is in memory only
	sync  bool

	ledger   ledger
	restored multicast.Position
	covered  multicast.Position
	saveAt   time.Duration // 0: all is saved
	now      time.Duration

	load      load
	payload   []byte
	seq       uint64
	submitted uint64
	completed uint64
	started   [recent]time.Duration // the time at which number n was submitted, at n % recent
	latency   histogram
	last      time.Duration // the time of the last delivery
	gap       time.Duration
}

// Step proposes as many messages as the load allows, and steps the core.
func (n *node) Step(in *turn.Input, out *turn.Output) {
	n.now = in.Now.Mono
	for _, call := range in.Requests {
		out.Replies = append(out.Replies, turn.Call{Token: call.Token, Data: n.answer(call.Data)})
	}
	for n.hasRoom() {
		n.seq++
		n.started[n.seq%recent] = n.now
		in.Proposed = append(in.Proposed, multicast.Message{
			ID:      multicast.MessageID{Sender: n.self, Seq: n.seq},
			Dest:    n.load.Dest[n.submitted%uint64(len(n.load.Dest))],
			Payload: n.payload,
		})
		n.submitted++
	}
	in.Covered = multicast.UpTo(n.covered)
	n.core.Step(&in.Input, &out.Output)
}

func (n *node) hasRoom() bool {
	return n.submitted-n.completed < uint64(n.load.Outstanding) && (n.load.Messages == 0 || n.submitted < n.load.Messages)
}

// Wake is the time of the next step without any input.
func (n *node) Wake() time.Duration {
	if n.hasRoom() {
		return max(n.now, 1)
	}
	return n.saveAt
}

// Syncs implements turn.Node.
func (*node) Syncs(*turn.Output) bool { return false }

// Apply counts and checks deliveries.
func (n *node) Apply(out *turn.Output) ([]turn.Call, error) {
	deliveries := out.Deliveries
	if len(deliveries) > 0 {
		now := n.clock.Now().Mono
		n.gap = max(n.gap, now-n.last)
		n.last = now
		for i := range deliveries {
			n.deliver(&deliveries[i], now)
		}
		if n.dir == "" {
			n.covered = n.ledger.Position
		} else if n.saveAt == 0 {
			n.saveAt = now + saveEvery
		}
	}
	if n.saveAt == 0 || n.now < n.saveAt {
		return nil, nil
	}
	n.saveAt, n.covered = 0, n.ledger.Position
	return nil, n.ledger.save(n.dir, n.sync)
}

func (n *node) deliver(d *multicast.Delivery, now time.Duration) {
	n.ledger.deliver(d, n.restored)
	if d.ID.Sender == n.self && d.ID.Seq>>32 == n.seq>>32 {
		n.completed++
		n.latency.add(now - n.started[d.ID.Seq%recent])
	}
}

// answer executes a command and gives the state.
func (n *node) answer(b []byte) []byte {
	var c command
	violations := n.ledger.Violations
	if err := json.Unmarshal(b, &c); err != nil {
		violations = append(slices.Clone(violations), fmt.Sprintf("command %q: %v", b, err))
	}
	if c.Load != nil {
		n.load = *c.Load
		n.payload = slices.Repeat([]byte{'x'}, n.load.Payload)
	}
	if c.Mark {
		n.latency, n.gap, n.last = histogram{}, 0, n.now
	}
	s := state{
		Count: n.ledger.Count, Digest: n.ledger.Digest, Violations: violations,
		Senders:   map[multicast.ProcessID]uint64{},
		Submitted: n.submitted, Completed: n.completed,
		Latency: n.latency.sparse(), Gap: max(n.gap, n.now-n.last),
	}
	for id, sender := range n.ledger.Senders {
		s.Senders[id] = sender.Count
	}
	reply, err := json.Marshal(s)
	invariant.Check(err == nil, "state: %v", err)
	return reply
}
