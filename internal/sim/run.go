package sim

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/globalfs/globalfs/internal/turn"
	"github.com/globalfs/globalfs/pkg/multicast"
	"github.com/globalfs/globalfs/pkg/multicast/check"
)

// Protocol is the protocol that Run puts on the processes.
type Protocol struct {
	// New creates the core of a process. Its state machine is durable up to delivered.
	New func(self multicast.ProcessID, groups []multicast.Group, delivered multicast.Progress) (multicast.Core, error)
	// NewSpare creates the core of a process that replaces another one.
	NewSpare func(self, dead multicast.ProcessID, groups []multicast.Group, delivered multicast.Progress) (multicast.Core, error)
	// AtRest, if set, checks a core at the end, for example for messages that it still keeps although all
	// destinations hold them durably. All messages have been delivered before, and one process has sent the
	// last messages to all destination groups.
	AtRest func(core multicast.Core) error
	// Leads, if set, reports whether a core leads its group. Faults.Chase uses it.
	Leads func(core multicast.Core) bool
	// Size, if set, returns the amount of data that a core keeps, in any unit. It is called after each step,
	// so it must be fast.
	Size func(core multicast.Core) int
	// Conflicts, if set, reports whether two messages conflict: cores need not order commuting messages (T
	// 4.4.3). It is symmetric. Faults must not restart processes.
	Conflicts func(a, b *multicast.Message) bool
	// SafeOf, if set, means that the cores order by classes (package multicast). It returns the timestamp up
	// to which no further message of a class is delivered after the last step.
	SafeOf func(core multicast.Core, class multicast.Class) multicast.Timestamp
	// NewAmnesiac, if set, creates the core of a process that has lost power, and Remembers reports whether a
	// core has a vote. Faults.Outage needs both.
	NewAmnesiac func(self multicast.ProcessID, groups []multicast.Group, delivered multicast.Progress) (multicast.Core, error)
	Remembers   func(core multicast.Core) bool
	// Replace, if set, begins a change of the members of a group, while faults continue. A spare of the
	// change has just started. Replace calls done at any later time, when the change was made.
	Replace func(n *Network, group multicast.GroupID, what multicast.Replacement, done func())
}

// Workload configures the messages that Run multicasts.
type Workload struct {
	Messages int
	Every    time.Duration // mean time between two messages
	Steady   bool          // the time between two messages is always Every
	// Dest are the groups that messages go to; a message goes to 1..MostDest of them.
	Dest     []multicast.GroupID
	MostDest int
	Senders  []multicast.ProcessID
	Payload  int // bytes at most
	// AfterPercent of the messages demand a lower bound of their final timestamp. AgainPercent are old
	// messages that are proposed to their sender again. The sender has not restarted in between, because the
	// numbers of messages must be higher after a restart.
	AfterPercent, AgainPercent int
	// OrderPercent of the messages demand atomic global order, which is then checked.
	OrderPercent int
	// Reactions is the maximal number of additional messages, each multicast by some sender right after a
	// delivery at some process. ReactPercent is the share of deliveries that cause one.
	Reactions, ReactPercent int
	// SendersFinish prevents the stop of a process while one of its messages is not delivered by all
	// destinations. Otherwise a sender can stop when half of the destinations have received its message.
	SendersFinish bool
}

// Validate names the wrong field and the remedy.
func (w *Workload) Validate() error {
	switch {
	case len(w.Dest) == 0 || len(w.Senders) == 0:
		return fmt.Errorf("sim: Workload: %d groups in Dest and %d in Senders: name at least one each", len(w.Dest), len(w.Senders))
	case w.MostDest < 1 || w.MostDest > len(w.Dest):
		return fmt.Errorf("sim: Workload.MostDest: %d is not within 1 and the %d groups in Dest", w.MostDest, len(w.Dest))
	}
	return nil
}

// Result is the outcome of a run.
type Result struct {
	History    check.History
	Violations []check.Violation
	Hash       uint64 // equal for equal runs
	Events     uint64
	Reach      Reach
	Size       int // the maximum of Protocol.Size over all cores and steps
}

// Reach counts situations that must not be rare in the runs of a test: the counts prove that the runs reach
// them.
type Reach struct {
	Restarts    int
	Repeated    int // deliveries that a restarted process made again
	Lost        int // messages that were lost with their sender
	Checkpoints int
	Marks       Marks
}

// sent is a message that was multicast.
type sent struct {
	multicast.Message
	at                   time.Duration
	incarnation          uint64 // of the sender
	lost                 bool   // no process had delivered it before its sender stopped
	deliveries, expected int    // the number of deliveries made, and of those required
}

// run is a workload on a network.
type run struct {
	cfg      Config
	workload Workload
	protocol Protocol

	net        *Network
	machines   map[multicast.ProcessID]*machine
	sent       map[multicast.MessageID]*sent
	order      []*sent
	seq        map[multicast.ProcessID]uint64
	highest    multicast.Timestamp
	reach      Reach
	history    check.History
	violations []check.Violation
	size       int
	classes    []multicast.Class // the classes of all messages, if the protocol has classes
	reactions  int
	replacing  int                          // the number of spares that will start
	replaced   int                          // the number of spares that were used
	changing   map[multicast.GroupID]bool   // groups that a live member leaves, or a spare joins
	evicted    map[multicast.ProcessID]bool // live members that must leave their groups
	retired    map[multicast.ProcessID]bool // the members of evicted that have learned this
}

// Run multicasts a workload under faults, and then heals the network. It checks that all messages are
// delivered, that the promises of package multicast hold, and that cores forget messages that they no longer
// need. It returns an error if an argument is invalid, or a core does not start from its records.
func Run(cfg Config, w Workload, p Protocol) (*Result, error) {
	if err := errors.Join(w.Validate(), p.validateConflicts(&cfg)); err != nil {
		return nil, err
	}
	r := newRun(cfg, w, p)
	if err := r.play(); err != nil {
		return nil, err
	}
	return r.result(), nil
}

func newRun(cfg Config, w Workload, p Protocol) *run {
	r := &run{
		cfg: cfg, workload: w, protocol: p,
		machines: map[multicast.ProcessID]*machine{},
		sent:     map[multicast.MessageID]*sent{},
		seq:      map[multicast.ProcessID]uint64{},
		changing: map[multicast.GroupID]bool{},
		evicted:  map[multicast.ProcessID]bool{},
		retired:  map[multicast.ProcessID]bool{},
	}
	if p.Conflicts != nil {
		r.history.Conflict = r.conflict
	}
	r.history.Classes = p.SafeOf != nil
	for _, g := range cfg.Groups {
		for _, p := range g.Members {
			r.machines[p] = &machine{run: r, self: p}
			r.history.Processes = append(r.history.Processes, check.Process{ID: p, Group: g.ID, Correct: true})
		}
	}
	return r
}

// play runs the workload from start to end.
func (r *run) play() (err error) {
	if r.workload.SendersFinish {
		r.cfg.Faults.MayCrash = r.finished
	}
	r.cfg.Faults.MayMove = r.concerned
	if r.protocol.Leads != nil {
		r.cfg.Faults.Leads = r.leads
	}
	if r.protocol.NewAmnesiac != nil {
		r.cfg.Faults.Remembers, r.cfg.Faults.Darkened = r.remembers, r.darkened
	}
	r.cfg.Faults.Killed = r.killed
	r.cfg.Faults.TakeOver, r.cfg.Faults.Learned = r.takeOver, r.learn
	r.cfg.Faults.Evicted, r.cfg.Faults.Grown, r.cfg.Faults.Shrunk = r.evict, r.grow, r.shrink
	if r.net, err = New(r.cfg, r.boot); err != nil {
		return err
	}
	r.net.Run(4 * r.cfg.LatencyMax) // until all links have started
	for range r.workload.Messages {
		wait := r.workload.Every
		if !r.workload.Steady {
			wait = time.Duration(r.net.Rand().ExpFloat64() * float64(wait))
		}
		r.net.Run(r.net.Now() + wait)
		if r.net.Err() != nil {
			return r.net.Err()
		}
		r.multicastAny()
	}
	r.net.Run(r.net.Now() + r.between(0, r.cfg.Faults.Longest))
	r.net.Heal()
	r.finish()
	return r.net.Err()
}

func (r *run) between(from, to time.Duration) time.Duration { return r.net.between(from, to) }

// boot implements Boot.
func (r *run) boot(self multicast.ProcessID, incarnation uint64, records [][]byte) (turn.Node, error) {
	m := r.machines[self]
	for _, l := range m.lines {
		l.applied = l.durable
	}
	if incarnation > 1 {
		if !r.net.healed {
			r.reach.Restarts++
		}
		r.loseUndelivered(self)
	}
	var core multicast.Core
	var err error
	if r.net != nil && r.net.processes[self].disk.dark {
		core, err = r.protocol.NewAmnesiac(self, r.cfg.Groups, m.progress())
	} else if m.replaces != 0 {
		core, err = r.protocol.NewSpare(self, m.replaces, r.cfg.Groups, m.progress())
	} else {
		core, err = r.protocol.New(self, r.cfg.Groups, m.progress())
	}
	for i := 0; err == nil && i < len(records); i++ {
		err = core.Replay(records[i])
	}
	return &coreNode{core: core, machine: m}, err
}

// loseUndelivered marks the messages of a stopped process as lost that no process has delivered.
func (r *run) loseUndelivered(p multicast.ProcessID) {
	for _, s := range r.order {
		if s.ID.Sender == p && s.deliveries == 0 && !s.lost {
			s.lost = true
			r.reach.Lost++
		}
	}
}

// finished reports whether all destinations have delivered all messages of a process.
func (r *run) finished(p multicast.ProcessID) bool {
	return !slices.ContainsFunc(r.order, func(s *sent) bool { return s.ID.Sender == p && s.deliveries < s.expected })
}

// multicastAny proposes one message, a new or an old one, to a random sender.
func (r *run) multicastAny() {
	rng, w := r.net.Rand(), &r.workload
	if len(r.order) > 0 && r.net.percent(w.AgainPercent) {
		old := r.order[rng.IntN(len(r.order))]
		if p := old.ID.Sender; r.net.Up(p) && r.net.Incarnation(p) == old.incarnation {
			r.net.Propose(p, old.Message)
		}
		return
	}
	r.multicastNew()
}

// multicastNew proposes a new message to a random sender.
func (r *run) multicastNew() {
	rng, w := r.net.Rand(), &r.workload
	var dest []multicast.GroupID
	for _, i := range rng.Perm(len(w.Dest))[:1+rng.IntN(w.MostDest)] {
		dest = append(dest, w.Dest[i])
	}
	slices.Sort(dest)
	r.multicast(w.Senders[rng.IntN(len(w.Senders))], dest)
}

// multicast proposes a new message to a sender, if the sender is up.
func (r *run) multicast(from multicast.ProcessID, dest []multicast.GroupID) {
	if !r.net.Up(from) {
		return
	}
	rng := r.net.Rand()
	r.seq[from]++
	m := multicast.Message{
		ID:      multicast.MessageID{Sender: from, Seq: r.seq[from]},
		Dest:    dest,
		Payload: binary.AppendUvarint(make([]byte, rng.IntN(r.workload.Payload+1)), r.seq[from]),
	}
	if rng.IntN(100) < r.workload.AfterPercent {
		m.After = r.highest + multicast.Timestamp(rng.IntN(4))
	}
	if r.net.percent(r.workload.OrderPercent) {
		m.Order = multicast.AtomicGlobal
	}
	if class := r.classOf(dest); class != "" && !slices.Contains(r.classes, class) {
		r.classes = append(r.classes, class)
	}
	s := &sent{Message: m, at: r.net.Now(), incarnation: r.net.Incarnation(from), lost: r.evicted[from]}
	for _, g := range r.cfg.Groups {
		if m.To(g.ID) {
			s.expected += r.waitedFor(&g)
		}
	}
	r.sent[m.ID] = s
	r.order = append(r.order, s)
	r.net.Propose(from, m)
}

// result checks the recorded history.
func (r *run) result() *Result {
	for _, s := range r.order {
		r.history.Multicasts = append(r.history.Multicasts, check.Multicast{
			ID: s.ID, Dest: s.Dest, At: s.at, After: s.After, Order: s.Order, Lost: s.lost,
		})
	}
	for _, id := range r.net.ids {
		if at, ok := r.net.Active(id); ok {
			r.history.Steps = append(r.history.Steps, check.Step{Process: id, At: at})
		}
		for _, to := range r.net.ids {
			if at, ok := r.net.Spoke(id, to); ok {
				r.history.Sends = append(r.history.Sends, check.Send{From: id, To: to, At: at})
			}
		}
	}
	r.checkUnaware()
	found := slices.Concat(r.violations, check.All(&r.history))
	if r.replaced == 0 && len(r.evicted) == 0 { // a change of members involves all processes
		found = append(found, check.Genuineness(&r.history)...)
	}
	if r.workload.OrderPercent > 0 {
		found = append(found, check.AtomicGlobalOrder(&r.history)...)
	}
	r.reach.Marks = r.net.Marks()
	return &Result{
		History: r.history, Violations: found, Hash: r.net.Hash(), Events: r.net.Events(), Reach: r.reach, Size: r.size,
	}
}
