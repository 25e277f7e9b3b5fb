package onesided

import (
	"slices"
	"time"

	"github.com/globalfs/globalfs/pkg/fabric"
	"github.com/globalfs/globalfs/pkg/multicast"
	"github.com/globalfs/globalfs/pkg/multicast/tram"
)

// Config of a Core.
type Config struct {
	Self  multicast.ProcessID
	Group multicast.Group // with its first members
	// Replaced are the replacements of members since, in order.
	Replaced []multicast.Replacement
	// Delivered is the durable position of the state machine at the start. Nothing up to it is delivered.
	Delivered multicast.Position
	// Amnesiac: the last records of earlier lives may be lost.
	Amnesiac bool
	// Slots, SlotSize, Keep, CheckpointMin and SuspectAfter are those of package tram; 0: the defaults
	// below.
	Slots, SlotSize, Keep, CheckpointMin int
	SuspectAfter                         time.Duration
	Seed                                 uint64
}

// Defaults of Config.
const (
	DefaultSlots        = 64
	DefaultSlotSize     = 4096
	DefaultKeep         = 1 << 16
	DefaultSuspectAfter = 250 * time.Millisecond
)

func (cfg *Config) setDefaults() {
	for _, d := range []struct {
		field *int
		value int
	}{{&cfg.Slots, DefaultSlots}, {&cfg.SlotSize, DefaultSlotSize}, {&cfg.Keep, DefaultKeep}} {
		if *d.field == 0 {
			*d.field = d.value
		}
	}
	if cfg.SuspectAfter == 0 {
		cfg.SuspectAfter = DefaultSuspectAfter
	}
}

// Core orders a partition by TRAM: an order.Core.
type Core struct {
	cfg     Config
	core    *tram.Core
	seats   seats
	pieces  pieces
	watch   watch
	started bool
	retired bool
	behind  bool
	logged  bool // the log has records of earlier lives
	number  uint64

	in          tram.Input
	out         tram.Output
	completions []fabric.Completion
}

// New returns a Core. The caller replays the log, attaches the regions, and begins to step.
func New(cfg Config) (*Core, error) {
	cfg.setDefaults()
	c := &Core{
		cfg: cfg, seats: newSeats(&cfg.Group, cfg.Replaced),
		pieces: newPieces(uint64(cfg.Delivered.Final), uint64(cfg.Keep/2)), watch: watch{silence: silenceAfter * cfg.SuspectAfter},
	}
	return c, c.renew()
}

// renew creates the core of TRAM. A process that has taken over a seat has the knowledge of its seat in its
// log; without records it starts amnesiac.
func (c *Core) renew() (err error) {
	at := c.seats.of(c.cfg.Self)
	if at == nil {
		c.retired = true
		at = c.seats.formerly(c.cfg.Self)
	}
	cfg := tram.Config{
		Groups: []multicast.Group{c.cfg.Group}, Slots: c.cfg.Slots, SlotSize: c.cfg.SlotSize, Keep: c.cfg.Keep,
		CheckpointMin: c.cfg.CheckpointMin, SuspectAfter: c.cfg.SuspectAfter, NoteEvery: c.cfg.SuspectAfter / 10, Seed: c.cfg.Seed, Sync: true,
		Delivered: multicast.UpTo(c.cfg.Delivered), Redeliver: true, Successive: true, Seats: c.seats.all(),
	}
	if at != nil {
		cfg.Self, cfg.Life = at.process, at.life()
		cfg.Amnesiac = c.cfg.Amnesiac || at.generation() > 0 && !c.logged
	}
	if cfg.Amnesiac {
		cfg.Life = max(cfg.Life, 1)
	}
	c.core, err = tram.New(cfg)
	return err
}

// Replay implements multicast.Core.
func (c *Core) Replay(record []byte) error {
	if !c.logged {
		c.logged = true
		if err := c.renew(); err != nil {
			return err
		}
	}
	return c.core.Replay(record)
}

// Regions returns the regions that the caller registers before the first step.
func (c *Core) Regions() []fabric.Region { return c.core.Regions() }

// Attach passes a registered region to the core.
func (c *Core) Attach(id fabric.RegionID, m fabric.Memory) { c.core.Attach(id, m) }

// Complete passes completions of operations to the next step.
func (c *Core) Complete(all []fabric.Completion) { c.completions = append(c.completions, all...) }

// Effects appends the changes of rights and the operations of the last step. They wait for the records of the
// step.
func (c *Core) Effects(rights []fabric.Right, ops []fabric.Op) ([]fabric.Right, []fabric.Op) {
	return append(rights, c.out.Rights...), append(ops, c.out.Ops...)
}

// Checkpoint implements order.Core.
func (c *Core) Checkpoint() []byte { return c.core.Checkpoint() }

// Leads implements order.Core.
func (c *Core) Leads() bool { return !c.retired && c.core.Leads() }

// Amnesiac implements order.Recovered.
func (c *Core) Amnesiac() bool { return c.core.Amnesiac() }

// Lacks implements order.Recovered.
func (c *Core) Lacks() (at multicast.ClassPosition, lacks bool) {
	at.Position, lacks = c.core.Lacks()
	return at, lacks
}

// Members implements order.Core.
func (c *Core) Members(g multicast.GroupID) []multicast.ProcessID {
	if g != c.cfg.Group.ID {
		return nil
	}
	return c.seats.nodes()
}

// State implements multicast.Transferable. A process that is behind itself returns a state that Adopt
// refuses.
func (c *Core) State() []byte {
	if c.behind {
		return nil
	}
	return c.core.State()
}

// Adopt implements multicast.Transferable.
func (c *Core) Adopt(state []byte) ([]byte, multicast.Progress, error) { return c.core.Adopt(state) }

// Stats returns the counters of TRAM.
func (c *Core) Stats() tram.Stats { return c.core.Stats() }

// Usage tells how full the rings of TRAM are.
func (c *Core) Usage() tram.Usage { return c.core.Usage() }

// Pending is how many messages and entries wait here for another process.
func (c *Core) Pending() int { return c.core.Pending() }

// Leave informs the core that its process has left the group.
func (c *Core) Leave() { c.retired = true }

// Step implements multicast.Core.
func (c *Core) Step(in *multicast.Input, out *multicast.Output) {
	c.out.Reset()
	if c.retired = c.retired || c.seats.of(c.cfg.Self) == nil; c.retired {
		c.completions = nil
		out.Retired = true
		return
	}
	now := in.Now.Mono
	c.in = tram.Input{Now: now, Completions: c.completions, Lead: in.Lead, Proposed: c.in.Proposed[:0]}
	c.completions = nil
	c.in.Seats = c.seats.take(in.Replace)
	if c.in.Covered = in.Covered; c.started { // before the first step, the pieces in the log are not known
		c.in.Free = c.pieces.cover(uint64(in.Covered.Of("").Final))
	}
	c.propose(in.Proposed)
	c.listen(in.Frames, now)
	c.core.Step(&c.in, &c.out)
	clear(c.in.Proposed)
	for i := range c.out.Deliveries {
		c.deliver(&c.out.Deliveries[i], out)
	}
	out.Records, out.Checkpoint, out.Sync = append(out.Records, c.out.Records...), c.out.Checkpoint, c.out.Sync
	out.Behind, out.Retired, out.Wake = c.out.Behind, c.out.Retired, c.out.Wake
	c.behind, c.retired = len(out.Behind) > 0, c.out.Retired
	out.Safe = multicast.Timestamp(c.pieces.at)
	if c.speak(out, now); len(c.pieces.void) > 0 {
		out.Wake = now + 1
	}
}

// deliver handles a delivery of TRAM.
func (c *Core) deliver(d *multicast.Delivery, out *multicast.Output) {
	c.watch.probing = c.watch.probing && d.ID != c.watch.probe
	m, complete := c.pieces.take(d)
	if complete && c.pieces.at > uint64(c.cfg.Delivered.Final) {
		m.Dest = d.Dest
		out.Deliveries = append(out.Deliveries, multicast.Delivery{Message: m, Final: d.Final})
	}
	if complete {
		c.pieces.delivered(m.ID)
	}
}

// propose multicasts messages in pieces. Messages that have become void come first.
func (c *Core) propose(all []multicast.Message) {
	if !c.started {
		if c.started = true; c.core.Life() > 0 {
			c.probe() // an earlier life may have left incomplete messages, whose pieces will not come
		}
	}
	for _, m := range slices.Concat(c.pieces.takeVoid(), all) {
		for _, piece := range c.pieces.split(&m, c.core.Room(1)) {
			c.multicast(piece)
		}
	}
}

// multicast multicasts a payload.
func (c *Core) multicast(payload []byte) multicast.MessageID {
	c.number++
	m := multicast.Message{
		ID:   multicast.MessageID{Sender: c.seats.of(c.cfg.Self).process, Seq: uint64(c.core.Life())<<40 + c.number},
		Dest: []multicast.GroupID{c.cfg.Group.ID}, Payload: payload,
	}
	c.in.Proposed = append(c.in.Proposed, m)
	return m.ID
}
