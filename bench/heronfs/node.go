package heronfs

import (
	"fmt"
	"slices"
	"time"

	"github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/internal/kv"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/order"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/turn"
	"github.com/globalfs/globalfs/pkg/fabric"
	"github.com/globalfs/globalfs/pkg/heron"
	"github.com/globalfs/globalfs/pkg/multicast"
	"github.com/globalfs/globalfs/pkg/multicast/tram"
)

const (
	// never is longer than a measurement: no process fails.
	never = time.Hour
	// helpAfter is longer than a round trip of any measurement.
	helpAfter = 100 * time.Millisecond
)

// Config of a Node.
type Config struct {
	Self     multicast.ProcessID
	Groups   []multicast.Group // the partitions of the region; the first one is the root of the tree
	Keys     *kv.Store
	Owner    posix.Cred // of the root directories
	Endpoint fabric.Endpoint
	Seed     uint64
}

// Node is a replica of a partition: a turn.Node.
type Node struct {
	self     multicast.ProcessID
	group    multicast.Group
	order    *tram.Core
	heron    *heron.Core
	app      *app
	started  bool
	seq      uint64
	calls    map[multicast.MessageID]uint64 // tokens
	executed int

	ordered tram.Output
	effects heron.Output
}

// New makes a Node, and registers its regions with the endpoint.
func New(cfg Config) (*Node, error) {
	n := &Node{self: cfg.Self, calls: map[multicast.MessageID]uint64{}}
	i := slices.IndexFunc(cfg.Groups, func(g multicast.Group) bool { return slices.Contains(g.Members, cfg.Self) })
	if i < 0 {
		return nil, fmt.Errorf("heronfs: Self: process %d is in no group", cfg.Self)
	}
	n.group = cfg.Groups[i]
	parents := map[multicast.GroupID]multicast.GroupID{}
	for _, g := range cfg.Groups[1:] {
		parents[g.ID] = cfg.Groups[0].ID
	}
	var err error
	if n.app, err = newApp(uint16(n.group.ID), cfg.Owner, cfg.Keys); err != nil {
		return nil, err
	}
	n.order, err = tram.New(tram.Config{Self: cfg.Self, Groups: cfg.Groups, Parents: parents, SuspectAfter: never, Seed: cfg.Seed})
	if err != nil {
		return nil, err
	}
	n.heron, err = heron.New(heron.Config{
		Self: cfg.Self, Groups: cfg.Groups, App: n.app, Objects: pageCount, ObjectSize: pageSize, Patience: never, HelpAfter: helpAfter,
	})
	if err != nil {
		return nil, err
	}
	for _, core := range []interface {
		Regions() []fabric.Region
		Attach(id fabric.RegionID, m fabric.Memory)
	}{n.order, n.heron} {
		for _, r := range core.Regions() {
			m, err := cfg.Endpoint.Register(r.ID, r.Size)
			if err != nil {
				return nil, err
			}
			core.Attach(r.ID, m)
		}
	}
	return n, nil
}

// Stats gives the counts of Heron.
func (n *Node) Stats() heron.Stats { return n.heron.Stats() }

// Step implements turn.Node. Output.Deliveries has an empty delivery for each request that was executed.
func (n *Node) Step(in *turn.Input, out *turn.Output) {
	first := tram.Input{Now: in.Now.Mono}
	second := heron.Input{Now: in.Now.Mono}
	for _, c := range in.Completions {
		if heron.Owns(c.Region) {
			second.Completions = append(second.Completions, c)
		} else {
			first.Completions = append(first.Completions, c)
		}
	}
	if !n.started {
		n.started = true
		if n.self == n.group.Members[0] {
			n.multicast(&first, &request{}, []multicast.GroupID{n.group.ID})
		}
	}
	for _, call := range in.Requests {
		n.request(call, in.Now, &first, out)
	}
	n.ordered.Reset()
	n.order.Step(&first, &n.ordered)
	second.Deliveries = slices.Clone(n.ordered.Deliveries)
	n.effects.Reset()
	n.heron.Step(&second, &n.effects)
	out.Rights = append(append(out.Rights, n.ordered.Rights...), n.effects.Rights...)
	out.Ops = append(append(out.Ops, n.ordered.Ops...), n.effects.Ops...)
	executed := n.heron.Stats().Executed
	out.Deliveries = append(out.Deliveries, make([]multicast.Delivery, executed-n.executed)...)
	n.executed = executed
	for _, r := range n.effects.Responses {
		if token, ok := n.calls[r.ID]; ok {
			delete(n.calls, r.ID)
			out.Replies = append(out.Replies, answer(token, r.Body))
		}
	}
	out.Wake = order.Earliest(n.ordered.Wake, n.effects.Wake)
}

// request takes a request of a client.
func (n *Node) request(call turn.Call, now multicast.Instant, in *tram.Input, out *turn.Output) {
	q, err := ask.DecodeRequest(call.Data)
	if err == nil && q.Kind == ask.OpenSession {
		out.Replies = append(out.Replies, answer(call.Token, nil))
		return
	}
	var r request
	if err == nil {
		r.command, err = meta.DecodeCommand(q.Command)
	}
	if err != nil || q.Kind != ask.Update {
		text := fmt.Appendf(nil, "request of kind %d: %v", q.Kind, err)
		out.Replies = append(out.Replies, turn.Call{Token: call.Token, Data: (&ask.Reply{Status: ask.Refused, Result: text}).Append(nil)})
		return
	}
	r.command.Time = posix.Time(now.Wall)
	if r.parties = q.Dest; len(r.parties) == 0 {
		r.parties = []uint16{uint16(n.group.ID)}
	}
	var dest []multicast.GroupID
	for _, p := range r.parties {
		dest = append(dest, multicast.GroupID(p))
	}
	n.calls[n.multicast(in, &r, dest)] = call.Token
}

// multicast proposes a request.
func (n *Node) multicast(in *tram.Input, r *request, dest []multicast.GroupID) multicast.MessageID {
	n.seq++
	id := multicast.MessageID{Sender: n.self, Seq: n.seq}
	in.Proposed = append(in.Proposed, multicast.Message{ID: id, Dest: dest, Payload: r.encode()})
	return id
}

func answer(token uint64, result []byte) turn.Call {
	return turn.Call{Token: token, Data: (&ask.Reply{Status: ask.Answered, Result: result}).Append(nil)}
}

// Syncs implements turn.Node.
func (n *Node) Syncs(*turn.Output) bool { return false }

// Apply implements turn.Node: Step has executed the requests.
func (n *Node) Apply(*turn.Output) ([]turn.Call, error) { return nil, nil }

// Wake implements turn.Node.
func (n *Node) Wake() time.Duration { return 0 }
