package sim

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/globalfs/globalfs/internal/heap"
	"github.com/globalfs/globalfs/internal/turn"
	"github.com/globalfs/globalfs/pkg/fabric/fabricsim"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// Network has the processes, their links, disks and clocks, in virtual time. Its methods must not be called
// concurrently. Run calls the callbacks.
type Network struct {
	cfg  Config
	boot Boot
	rng  *rand.Rand

	now    time.Duration
	queue  heap.Timeline
	healed bool
	err    error // the first error of boot

	ids       []multicast.ProcessID
	processes map[multicast.ProcessID]*process
	token     uint64 // the token of the last request
	trace     trace
	marks     Marks
	memory    *fabricsim.Network // nil: processes have no one-sided memory
}

// New creates a network and starts all its processes. Their first steps and the starts of the links are the
// first events of Run.
func New(cfg Config, boot Boot) (*Network, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg.fill()
	n := &Network{
		cfg: cfg, boot: boot,
		rng:       rand.New(rand.NewPCG(cfg.Seed, 0x676c6f62616c6673)),
		processes: map[multicast.ProcessID]*process{},
		trace:     trace{to: cfg.Trace, hash: offset},
		memory:    cfg.Memory,
	}
	for _, g := range cfg.Groups {
		n.ids = append(n.ids, g.Members...)
	}
	n.ids = append(n.ids, cfg.Spares...)
	for i, id := range n.ids {
		n.processes[id] = n.newProcess(i)
		n.processes[id].away = slices.Contains(cfg.Spares, id)
	}
	for _, id := range n.ids {
		n.processes[id].restart()
	}
	if cfg.Faults.Every > 0 {
		n.scheduleFault()
	}
	return n, n.err
}

// Now returns the virtual time.
func (n *Network) Now() time.Duration { return n.now }

// Rand draws from the network's seed, for workloads.
func (n *Network) Rand() *rand.Rand { return n.rng }

// Hash returns a digest of all events so far.
func (n *Network) Hash() uint64 { return n.trace.hash }

// Events returns the number of events so far.
func (n *Network) Events() uint64 { return n.trace.events }

// Schedule schedules a call of f at a time; for a time in the past, as soon as possible.
func (n *Network) Schedule(at time.Duration, f func()) {
	n.queue.Add(max(at, n.now), f)
}

// Err returns the error that has ended the run; nil if there is none.
func (n *Network) Err() error { return n.err }

func (n *Network) fail(err error) {
	if n.err == nil {
		n.err = err
	}
}

// Run executes all events up to a time. It returns false if no event is left before that time, or the run has
// ended.
func (n *Network) Run(until time.Duration) bool {
	for n.err == nil {
		if at, ok := n.memoryNext(); ok && at <= until {
			n.now = at
			n.memory.Step()
			continue
		}
		at, ok := n.queue.Next()
		if !ok {
			break
		}
		if at > until {
			n.now = until
			return true
		}
		e := n.queue.Pop()
		n.now = e.At
		n.syncMemory()
		e.Do()
	}
	n.now = max(n.now, until)
	return false
}

// Up reports whether a process is running. A paused process is up.
func (n *Network) Up(p multicast.ProcessID) bool { return n.processes[p].up }

// Incarnation returns the number of starts of a process.
func (n *Network) Incarnation(p multicast.ProcessID) uint64 { return n.processes[p].incarnation }

// Node returns the node of a process; nil while the process is down.
func (n *Network) Node(p multicast.ProcessID) turn.Node { return n.processes[p].node }

// Propose passes a message to a process that is up. The message is lost if the process stops before the
// records of its next step are durable.
func (n *Network) Propose(p multicast.ProcessID, m multicast.Message) {
	x := n.processes[p]
	n.trace.add(n.now, "propose", p, uint64(m.ID.Sender), m.ID.Seq)
	x.input.Proposed = append(x.input.Proposed, m)
	x.wake()
}

// Replace asks a process that is up for the replacement of a member of its group.
func (n *Network) Replace(p multicast.ProcessID, what multicast.Replacement) {
	x := n.processes[p]
	x.input.Replace = append(x.input.Replace, what)
	x.wake()
}

// Poke makes a process step as soon as possible.
func (n *Network) Poke(p multicast.ProcessID) { n.processes[p].wake() }

// Heal ends all faults for ever: processes that are down restart, except killed ones, and delayed events go
// on.
func (n *Network) Heal() {
	n.healed = true
	n.healLinks()
	n.healMemory()
	for _, id := range n.ids {
		p := n.processes[id]
		p.pausedUntil, p.disk.slowUntil = n.now, n.now
		p.restart()
		p.wake()
	}
}

// Active returns the time when a process first sent or received a frame with data. ok is false if it never
// has.
func (n *Network) Active(p multicast.ProcessID) (at time.Duration, ok bool) {
	return n.processes[p].activeAt, n.processes[p].active
}

// Spoke returns the time when a process first sent a frame to another one. ok is false if it never has.
func (n *Network) Spoke(from, to multicast.ProcessID) (at time.Duration, ok bool) {
	at, ok = n.processes[from].spoke[to]
	return at, ok
}

// between draws a time from the closed interval.
func (n *Network) between(from, to time.Duration) time.Duration {
	if to <= from {
		return from
	}
	return from + time.Duration(n.rng.Int64N(int64(to-from)+1))
}

// percent is true with a probability of p percent.
func (n *Network) percent(p int) bool { return p > 0 && n.rng.IntN(100) < p }
