package replicas

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"sync/atomic"
	"time"

	"github.com/globalfs/globalfs/bench/memory"
	"github.com/globalfs/globalfs/pkg/fabric"
	"github.com/globalfs/globalfs/pkg/multicast"
	"github.com/globalfs/globalfs/pkg/multicast/tram"
)

// spec describes a replica to its process.
type spec struct {
	Memory      memory.Config
	Groups      []multicast.Group
	Parents     map[multicast.GroupID]multicast.GroupID
	Group       multicast.GroupID
	Messages    uint64 // of this client
	Outstanding int
	Destination int // groups of each message
	Payload     int
	Suspect     time.Duration
}

// line is a line of output of a replica.
type line struct {
	Event      string     `json:"event"` // ready, leads, follows, half, done or report
	Deliveries [][3]int64 `json:"deliveries,omitempty"`
	Pause      int64      `json:"pause_ns,omitempty"` // the longest time in which the process did not run, though it was due
	Campaigns  int        `json:"campaigns,omitempty"`
}

// quiet is how long nothing is delivered before a replica reports.
const quiet = 500 * time.Millisecond

// destination of a message: the group of its sender, and others in turn.
func destination(s *spec, sender multicast.ProcessID, seq uint64) []multicast.GroupID {
	n := uint64(len(s.Groups))
	dest := []multicast.GroupID{s.Group}
	for i := range uint64(s.Destination - 1) {
		// Neighbours in a circle from a place that turns, without the own group.
		other := (seq+uint64(sender)+i)%(n-1) + 1
		dest = append(dest, multicast.GroupID((uint64(s.Group)+other)%n))
	}
	slices.Sort(dest)
	return dest
}

// replica is a replica and its client.
type replica struct {
	spec
	id          multicast.ProcessID
	core        *tram.Core
	node        *memory.Node
	out         *json.Encoder
	seq, own    uint64 // proposed, and delivered here
	leads       bool
	halfWay     bool
	finished    bool
	deliveries  [][3]int64
	lastAt      time.Time
	pause       time.Duration
	outstanding uint64
}

// Replica runs a replica. The first line of in is its spec, the second starts the load, the third asks for
// the report.
func Replica(ctx context.Context, in io.Reader, out io.Writer) error {
	lines := bufio.NewReader(in)
	r := &replica{out: json.NewEncoder(out)}
	first, err := lines.ReadBytes('\n')
	if err != nil {
		return err
	}
	if err := json.Unmarshal(first, &r.spec); err != nil {
		return fmt.Errorf("the first line: %w", err)
	}
	if err := r.open(); err != nil {
		return err
	}
	defer func() { _ = r.node.Close() }() // the process ends
	if err := r.out.Encode(line{Event: "ready"}); err != nil {
		return err
	}
	var stage atomic.Int32 // lines that have come
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		defer cancel()
		for {
			if _, err := lines.ReadString('\n'); err != nil {
				return // the parent has ended
			}
			stage.Add(1)
		}
	}()
	return r.run(ctx, &stage)
}

func (r *replica) open() (err error) {
	r.id = multicast.ProcessID(r.Memory.Self)
	if r.node, err = memory.Open(r.Memory); err != nil {
		return err
	}
	r.core, err = tram.New(tram.Config{
		Self: r.id, Groups: r.Groups, Parents: r.Parents, SlotSize: 256 + r.Payload, SuspectAfter: r.Suspect, Seed: uint64(r.id),
	})
	if err != nil {
		return err
	}
	for _, region := range r.core.Regions() {
		m, err := r.node.Register(region.ID, region.Size)
		if err != nil {
			return err
		}
		r.core.Attach(region.ID, m)
	}
	return nil
}

// run steps the core until the report.
func (r *replica) run(ctx context.Context, stage *atomic.Int32) error {
	start := time.Now()
	var events fabric.Events
	var out tram.Output
	late := time.Duration(0) // a step has taken this time
	for ctx.Err() == nil {
		wait := 20 * time.Millisecond
		if out.Wake > 0 {
			wait = min(wait, max(0, out.Wake-time.Since(start)))
		}
		waits := time.Now()
		r.node.Wait(wait)
		events.Reset()
		r.node.Poll(&events)
		in := tram.Input{Now: time.Since(start), Completions: events.Completions}
		if stage.Load() > 0 {
			in.Proposed = r.propose()
			r.pause = max(r.pause, late, time.Since(waits)-wait)
		}
		out.Reset()
		r.core.Step(&in, &out)
		if err := r.carry(&out); err != nil {
			return err
		}
		if err := r.deliver(&out); err != nil {
			return err
		}
		late = time.Since(start) - in.Now
		if stage.Load() > 1 && time.Since(r.lastAt) > quiet {
			return r.out.Encode(line{Event: "report", Deliveries: r.deliveries, Pause: int64(r.pause), Campaigns: r.core.Stats().Campaigns})
		}
	}
	return ctx.Err()
}

// carry changes rights, and then posts operations.
func (r *replica) carry(out *tram.Output) error {
	for _, right := range out.Rights {
		change := r.node.Grant
		if right.Revoke {
			change = r.node.Revoke
		}
		if err := change(right.Region, right.Peer, right.Rights); err != nil {
			return err
		}
	}
	return r.node.Post(out.Ops...)
}

// propose gives the next messages of the client.
func (r *replica) propose() (all []multicast.Message) {
	for r.seq < r.Messages && r.outstanding < uint64(r.Outstanding) {
		r.seq++
		r.outstanding++
		all = append(all, multicast.Message{
			ID: multicast.MessageID{Sender: r.id, Seq: r.seq}, Dest: destination(&r.spec, r.id, r.seq), Payload: make([]byte, r.Payload),
		})
	}
	return all
}

// deliver notes deliveries, and says when half and all of the own messages were delivered, and who leads.
func (r *replica) deliver(out *tram.Output) error {
	if leads := r.core.Leads(); leads != r.leads {
		r.leads = leads
		event := map[bool]string{true: "leads", false: "follows"}[leads]
		if err := r.out.Encode(line{Event: event}); err != nil {
			return err
		}
	}
	if len(out.Deliveries) > 0 {
		r.lastAt = time.Now()
	}
	for _, d := range out.Deliveries {
		r.deliveries = append(r.deliveries, [3]int64{int64(d.ID.Sender), int64(d.ID.Seq), r.lastAt.UnixNano()})
		if d.ID.Sender == r.id {
			r.own++
			r.outstanding--
		}
	}
	if !r.halfWay && r.own >= r.Messages/2 {
		r.halfWay = true
		if err := r.out.Encode(line{Event: "half"}); err != nil {
			return err
		}
	}
	if !r.finished && r.own >= r.Messages {
		r.finished = true
		return r.out.Encode(line{Event: "done"})
	}
	return nil
}
