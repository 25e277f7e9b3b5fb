package sim

import (
	"cmp"
	"fmt"
	"io"
	"time"

	"github.com/globalfs/globalfs/pkg/fabric/fabricsim"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// Config of a Network.
type Config struct {
	Seed   uint64
	Groups []multicast.Group
	Spares []multicast.ProcessID // of no group, and down until Network.Start
	// Regions are sets of processes that can be cut off together.
	Regions [][]multicast.ProcessID

	// The latency of each direction of each link is drawn between LatencyMin and LatencyMax. Each frame is
	// delayed by up to Jitter in addition. Frames of a process to itself arrive at once.
	LatencyMin, LatencyMax, Jitter time.Duration
	// Gather is the maximum time between the first ready input of a process and its step. Input that arrives
	// in this time is part of the step. 0: a step follows its first input at once.
	Gather time.Duration
	// DiskMax is the maximal time until records are durable.
	DiskMax time.Duration
	// MaxFrame is the length of the longest frame that a process may send. Window is the maximum number of
	// bytes to one peer that are on the way or wait for a step. Frames beyond it are lost, and the link
	// restarts when the peer has consumed the frames that arrived. 0: the limits of real links, from package
	// multicast.
	MaxFrame, Window int
	// Pipelined permits a process to take further steps while its records are written.
	Pipelined bool
	// Skew is the maximal distance of a wall clock from virtual time.
	Skew time.Duration

	// Memory is the fabric of one-sided memory; nil: there is none.
	Memory *fabricsim.Network

	Faults Faults
	Trace  io.Writer // every event, a line each; nil: none
}

// Faults configures the faults, which occur until Heal. A fault has a kind, drawn with the weights, and lasts
// up to Longest.
type Faults struct {
	Every   time.Duration // mean time between two faults; 0: no faults
	Longest time.Duration
	// Weights of the kinds.
	Pause    int // a process takes no step
	Stall    int // frames between some processes and the others wait
	Cut      int // such frames are lost, in one direction or both; then the links restart
	Lag      int // a link, or each link of a process, is slower by up to LagMax
	Reset    int // a link between two live processes restarts
	SlowDisk int // writes become durable that much later
	Jump     int // a wall clock changes by up to Skew
	Crash    int // a process stops, and restarts after that time
	CrashAll int // all processes stop, and restart
	Chase    int // the leader of a group stops for a short time, then the next leader
	Kill     int // a process stops for ever; a majority of each group remains
	Move     int // a process is asked to lead its group
	// Ahead: a process stops. After its restart, the other members of its group take over its state, as if
	// it were ahead of them in another order.
	Ahead  int
	Learn  int // a process stops; at its restart, its state machine has learned deliveries of another process
	Evict  int // a spare must replace a live member; in each group one at a time
	Grow   int // a spare must join a group
	Shrink int // a live member must leave its group
	Power  int // all members of a group lose power (power.go); only if their nodes are loggers
	Outage int // a process loses power alone (power.go); only with Remembers

	LagMax time.Duration

	// ForgetPercent applies to early frames (multicast.Output.Early) that arrive before the records of their
	// steps are durable. With this probability, the sender stops at that moment, for up to Longest.
	ForgetPercent int

	// Functions of the load; each of them may be nil. TakeOver to Dark are needed only if their fault has a
	// weight: Ahead, Learn, Evict, Grow, Shrink, Power. A process that is asked to lead takes steps.
	MayCrash func(multicast.ProcessID) bool      // whether the process may be stopped now
	MayMove  func(multicast.ProcessID) bool      // whether it may be asked to lead; nil: any may
	Leads    func(multicast.ProcessID) bool      // whether a process that is up leads; nil: unknown
	Killed   func(multicast.ProcessID)           // is called when a process has stopped for ever
	TakeOver func(from multicast.ProcessID)      // makes other members take over its state; the process is up
	Learned  func(multicast.ProcessID)           // makes its state machine learn deliveries
	Evicted  func(multicast.ProcessID)           // requests the replacement of a member that was not killed
	Grown    func(multicast.GroupID)             // adds a spare to a group
	Shrunk   func(multicast.ProcessID)           // removes a member that was not killed from its group
	Dark     func([]multicast.ProcessID, LogEnd) // cuts the state machines of a group to the end of its logs
	// Remembers is needed with Outage: it reports whether the core of a process that is up has a vote.
	// Darkened is called when a process has lost power.
	Remembers func(multicast.ProcessID) bool
	Darkened  func(multicast.ProcessID)

	// The probabilities that a request or an answer of a call is lost, or is repeated.
	LossPercent, RepeatPercent int
	// WithdrawPercent of the calls without an answer are withdrawn, also after Heal: the process learns that
	// the client no longer waits, unless the message is lost.
	WithdrawPercent int
}

// Default returns a small network without faults: one group of three processes in one place.
func Default() Config {
	return Config{
		Groups:     []multicast.Group{{ID: 0, Members: []multicast.ProcessID{1, 2, 3}}},
		LatencyMin: time.Millisecond,
		LatencyMax: 2 * time.Millisecond,
	}
}

// fill replaces zero limits by the limits of real links.
func (c *Config) fill() {
	c.MaxFrame = cmp.Or(c.MaxFrame, multicast.MaxFrame)
	c.Window = cmp.Or(c.Window, multicast.Window)
}

// Validate returns an error that names the wrong field and the remedy.
func (c *Config) Validate() error {
	if c.MaxFrame < 0 || c.Window < 0 {
		return fmt.Errorf("sim: MaxFrame, Window: %d, %d: use positive numbers, or 0 for those of package multicast", c.MaxFrame, c.Window)
	}
	if err := c.validateProcesses(); err != nil {
		return err
	}
	return c.validateTimes()
}

func (c *Config) validateProcesses() error {
	seen := map[multicast.ProcessID]bool{}
	for _, g := range c.Groups {
		for _, p := range g.Members {
			if p == 0 || seen[p] {
				return fmt.Errorf("sim: Groups: process %d of group %d is 0 or stands twice: give each a number of its own", p, g.ID)
			}
			seen[p] = true
		}
	}
	for _, p := range c.Spares {
		if p == 0 || seen[p] {
			return fmt.Errorf("sim: Spares: process %d is 0, of a group, or stands twice: give each a number of its own", p)
		}
		seen[p] = true
	}
	for i, region := range c.Regions {
		for _, p := range region {
			if !seen[p] {
				return fmt.Errorf("sim: Regions: process %d of region %d is in no group and not in Spares", p, i)
			}
		}
	}
	return nil
}

func (c *Config) validateTimes() error {
	f := &c.Faults
	for _, d := range []struct {
		field string
		value time.Duration
	}{
		{"LatencyMin", c.LatencyMin}, {"LatencyMax - LatencyMin", c.LatencyMax - c.LatencyMin},
		{"Jitter", c.Jitter}, {"Gather", c.Gather}, {"DiskMax", c.DiskMax}, {"Skew", c.Skew},
		{"Faults.Every", f.Every}, {"Faults.Longest", f.Longest}, {"Faults.LagMax", f.LagMax},
	} {
		if d.value < 0 {
			return fmt.Errorf("sim: %s: %v is negative: use 0 or more", d.field, d.value)
		}
	}
	if f.Every > 0 && f.weights() == 0 {
		return fmt.Errorf("sim: Faults: Every is %v, and no kind has a weight: set one, or Every to 0", f.Every)
	}
	return nil
}

func (f *Faults) weights() int {
	return f.Pause + f.Stall + f.Cut + f.Lag + f.Reset + f.SlowDisk + f.Jump + f.Crash + f.CrashAll + f.Chase + f.Kill + f.Ahead + f.Learn + f.Move +
		f.Evict + f.Grow + f.Shrink + f.Power + f.Outage
}
