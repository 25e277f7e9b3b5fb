package tram_test

import (
	"sync"
	"time"

	"github.com/globalfs/globalfs/pkg/fabric"
	"github.com/globalfs/globalfs/pkg/multicast"
	"github.com/globalfs/globalfs/pkg/multicast/check"
	"github.com/globalfs/globalfs/pkg/multicast/tram"
)

// threeGroups returns three groups of three processes. The first group is the parent of the others.
func threeGroups() (groups []multicast.Group) {
	for g := range multicast.GroupID(3) {
		group := multicast.Group{ID: g}
		for i := range multicast.ProcessID(3) {
			group.Members = append(group.Members, multicast.ProcessID(3*g)+i+1)
		}
		groups = append(groups, group)
	}
	return groups
}

// destinations are the groups of messages in turn.
var destinations = [][]multicast.GroupID{{0}, {1}, {0, 1}, {1, 2}, {0, 1, 2}, {2}}

// node is a process on a fabric.
type node struct {
	id       multicast.ProcessID
	group    multicast.GroupID
	core     *tram.Core
	endpoint fabric.Endpoint
	stop     chan struct{}
	stopped  chan struct{}

	mu        sync.Mutex
	proposed  []multicast.Message
	delivered []check.Delivery
	leads     bool
}

// newNode returns a process of threeGroups with its memory.
func newNode(id multicast.ProcessID, group multicast.GroupID, endpoint fabric.Endpoint, suspectAfter time.Duration) (*node, error) {
	n := &node{id: id, group: group, endpoint: endpoint, stop: make(chan struct{}), stopped: make(chan struct{})}
	var err error
	n.core, err = tram.New(tram.Config{
		Self: id, Groups: threeGroups(), Parents: map[multicast.GroupID]multicast.GroupID{1: 0, 2: 0},
		Slots: 16, SlotSize: 256, SuspectAfter: suspectAfter, RetryAfter: 10 * time.Millisecond, Seed: uint64(id),
	})
	if err != nil {
		return nil, err
	}
	for _, region := range n.core.Regions() {
		m, err := endpoint.Register(region.ID, region.Size)
		if err != nil {
			return nil, err
		}
		n.core.Attach(region.ID, m)
	}
	return n, nil
}

// drive steps a process until n.stop is closed: rights change before operations are posted. It passes the
// output of each step to stepped, and whether the process leads its group.
func (n *node) drive(start time.Time, stepped func(out *tram.Output, leads bool)) {
	defer close(n.stopped)
	var events fabric.Events
	var out tram.Output
	for {
		select {
		case <-n.stop:
			return
		default:
		}
		wait := 100 * time.Millisecond
		if out.Wake > 0 {
			wait = min(wait, max(0, out.Wake-time.Since(start)))
		}
		n.endpoint.Wait(wait)
		events.Reset()
		n.endpoint.Poll(&events)
		n.mu.Lock()
		in := tram.Input{Now: time.Since(start), Completions: events.Completions, Proposed: n.proposed}
		n.proposed = nil
		n.mu.Unlock()
		out.Reset()
		n.core.Step(&in, &out)
		for _, right := range out.Rights {
			if right.Revoke {
				_ = n.endpoint.Revoke(right.Region, right.Peer, right.Rights)
			} else {
				_ = n.endpoint.Grant(right.Region, right.Peer, right.Rights)
			}
		}
		if n.endpoint.Post(out.Ops...) != nil {
			return
		}
		n.mu.Lock()
		for _, d := range out.Deliveries {
			n.delivered = append(n.delivered, check.Delivery{Process: n.id, ID: d.ID, Final: d.Final, At: time.Since(start)})
		}
		n.leads = n.core.Leads()
		n.mu.Unlock()
		stepped(&out, n.core.Leads())
	}
}
