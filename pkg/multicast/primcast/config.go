package primcast

import (
	"cmp"
	"fmt"
	"time"

	"github.com/globalfs/globalfs/pkg/multicast"
)

// DefaultSuspectAfter is longer than the pauses of a busy machine and the round trips between regions. It is
// short enough for a new primary to work within two seconds.
const DefaultSuspectAfter = 750 * time.Millisecond

// DefaultWindow limits the memory that a sender takes at its groups, and suffices to fill their pipelines.
const DefaultWindow = 8192

// DefaultWindowBytes suffices to fill pipelines between regions, and is a fraction of the window of a link.
const DefaultWindowBytes = multicast.Window / 4

// DefaultRetain is 64 MiB.
const DefaultRetain = 64 << 20

// DefaultFetchAfter is above the round trip between any two places on Earth.
const DefaultFetchAfter = time.Second

// DefaultCheckpointMin is 1 MiB.
const DefaultCheckpointMin = 1 << 20

// DefaultAuditEvery costs little per step.
const DefaultAuditEvery = 1 << 12

// maxMembers bounds the members of a group: a tally has one bit for each member in a word.
const maxMembers = 64

// Config of one process.
type Config struct {
	Self multicast.ProcessID
	// Groups are all groups, in the same order at all processes and after restarts. The first
	// member of a group leads its initial epoch. Core.AddGroup appends more.
	Groups []multicast.Group
	// Founded is the number of Groups that existed at the creation of the cluster; they are the first ones.
	// 0: all. The same at all processes and after restarts.
	Founded int
	// Replaces is for a process that is in none of the groups. It is the member that the process is to
	// replace, or any member of the group that it is to join (multicast.Replacement).
	Replaces multicast.ProcessID
	// Delivered is the durable progress of the state machine at the start. Messages up to it are not
	// delivered again; entries of T after it are.
	Delivered multicast.Progress
	// Classes: messages with the same destination groups are delivered in one order, messages of different
	// classes independently (package multicast). Not together with Conflicts or ClockError; messages that
	// request atomic global order are refused. The same at all processes and after restarts.
	Classes bool
	// SuspectAfter is the silence of a primary after which a process suspects it; 0: DefaultSuspectAfter.
	SuspectAfter time.Duration
	// Seed of the random part of time-outs.
	Seed uint64
	// HybridClock: timestamps follow the wall clock, in microseconds since the Unix epoch, which
	// lessens the convoy effect between groups that are far apart (T 4.4.1). It needs no synchronized
	// clocks to be correct. The same at all processes.
	HybridClock bool
	// ClockError, with HybridClock, is the maximum difference of any process's wall clock from true time.
	// Messages that request atomic global order then wait until their timestamp is past everywhere, and for
	// no other message (order.go). A larger difference breaks their order, and nothing else. 0: the order
	// does not depend on clocks. The same at all processes.
	ClockError time.Duration
	// Conflicts, if set, reports which messages must be delivered in order; it is symmetric and
	// deterministic. Messages that commute do not wait for each other (T 4.4.3): positions of deliveries
	// ascend only among messages that conflict. Input.Covered must then have all deliveries up to it, and
	// deliveries beyond it that the state machine has are delivered to it again after a restart.
	Conflicts func(a, b *multicast.Message) bool
	// Window is the maximum number of messages of this process on the way in each class; further messages
	// wait in it. 0: DefaultWindow.
	Window int
	// WindowBytes is the same in bytes: no further message is sent while as many bytes are on the way. 0:
	// DefaultWindowBytes.
	WindowBytes int
	// MaxFrame is the maximum length of a frame in bytes, unless a single message is longer; further messages
	// wait for the next step. It also bounds the proposals that a step takes and makes. 0: DefaultMaxFrame.
	MaxFrame int
	// PackDelay is the maximum time that a message waits for others to travel with; 0: no wait. Under load
	// messages are packed without it.
	PackDelay time.Duration
	// FetchAfter is the time after which the missing content of a message with known timestamps is fetched;
	// 0: DefaultFetchAfter.
	FetchAfter time.Duration
	// Retain is the number of bytes of delivered messages that are kept for members that do not cover them,
	// while a quorum does; 0: DefaultRetain. A member that needs them later takes over the state of another
	// one.
	Retain int
	// CheckpointMin is the minimum number of bytes of records between two checkpoints; 0:
	// DefaultCheckpointMin.
	CheckpointMin int
	// Amnesiac: the machine has lost power since the last step, and records that were not synced may be
	// missing. It is valid for the only group of a core, and once (amnesia.go).
	Amnesiac bool
	// Overlap: content and proposals leave while the records are being written (multicast.Output.Early), for
	// a log that syncs each step. It may differ between processes, and change with a restart (overlap.go).
	Overlap bool
	// AuditEvery is the number of steps between two checks of the invariants of every message; 0:
	// DefaultAuditEvery. Simulations check often.
	AuditEvery int
}

// fill sets the defaults of unset fields.
func (c *Config) fill() {
	c.Founded = cmp.Or(c.Founded, len(c.Groups))
	c.SuspectAfter = cmp.Or(c.SuspectAfter, DefaultSuspectAfter)
	c.FetchAfter = cmp.Or(c.FetchAfter, DefaultFetchAfter)
	c.Window = cmp.Or(c.Window, DefaultWindow)
	c.WindowBytes = cmp.Or(c.WindowBytes, DefaultWindowBytes)
	c.MaxFrame = cmp.Or(c.MaxFrame, DefaultMaxFrame)
	c.Retain = cmp.Or(c.Retain, DefaultRetain)
	c.CheckpointMin = cmp.Or(c.CheckpointMin, DefaultCheckpointMin)
	c.AuditEvery = cmp.Or(c.AuditEvery, DefaultAuditEvery)
}

// Validate returns an error with the wrong field and the remedy.
func (c *Config) Validate() error {
	if c.SuspectAfter < 0 {
		return fmt.Errorf("primcast: SuspectAfter is %v: use a positive duration, or 0 for %v", c.SuspectAfter, DefaultSuspectAfter)
	}
	if c.ClockError < 0 || c.ClockError > 0 && !c.HybridClock {
		return fmt.Errorf("primcast: ClockError is %v: use a positive duration together with HybridClock, or 0", c.ClockError)
	}
	if c.Classes && (c.Conflicts != nil || c.ClockError > 0) {
		return fmt.Errorf("primcast: Classes with Conflicts or with ClockError: leave these out, messages of a class have one order and others none")
	}
	if c.Amnesiac && len(c.Groups) > 1 {
		return fmt.Errorf("primcast: Amnesiac with %d groups: sync all records of a core with several groups, it cannot be amnesiac then", len(c.Groups))
	}
	for _, at := range c.Delivered {
		if (at.Class == "") == c.Classes {
			return fmt.Errorf("primcast: Delivered has class %v, and Classes is %v: was the state machine made with another setting?", at.Class, c.Classes)
		}
	}
	if c.Window < 0 {
		return fmt.Errorf("primcast: Window is %d messages: use a positive number, or 0 for %d", c.Window, DefaultWindow)
	}
	if c.WindowBytes < 0 {
		return fmt.Errorf("primcast: WindowBytes is %d bytes: use a positive number, or 0 for %d", c.WindowBytes, DefaultWindowBytes)
	}
	if c.MaxFrame < 0 || c.MaxFrame > maxPacket {
		return fmt.Errorf("primcast: MaxFrame is %d bytes: use a positive number up to %d, or 0 for %d", c.MaxFrame, maxPacket, DefaultMaxFrame)
	}
	if c.PackDelay < 0 {
		return fmt.Errorf("primcast: PackDelay is %v: use 0 or a positive duration", c.PackDelay)
	}
	if c.FetchAfter < 0 {
		return fmt.Errorf("primcast: FetchAfter is %v: use a positive duration, or 0 for %v", c.FetchAfter, DefaultFetchAfter)
	}
	if c.Founded < 0 || c.Founded > len(c.Groups) {
		return fmt.Errorf("primcast: Founded is %d of %d groups: use the number of groups at the start, or 0 for all", c.Founded, len(c.Groups))
	}
	if c.Retain < 0 {
		return fmt.Errorf("primcast: Retain is %d bytes: use a positive number, or 0 for %d", c.Retain, DefaultRetain)
	}
	if c.CheckpointMin < 0 {
		return fmt.Errorf("primcast: CheckpointMin is %d bytes: use a positive number, or 0 for %d", c.CheckpointMin, DefaultCheckpointMin)
	}
	if c.AuditEvery < 0 {
		return fmt.Errorf("primcast: AuditEvery is %d steps: use a positive number, or 0 for %d", c.AuditEvery, DefaultAuditEvery)
	}
	groupOf := map[multicast.ProcessID]multicast.GroupID{}
	seen := map[multicast.GroupID]bool{}
	for i, g := range c.Groups {
		if seen[g.ID] {
			return fmt.Errorf("primcast: Groups[%d].ID is %d again: merge the two, or give one another ID", i, g.ID)
		}
		seen[g.ID] = true
		if len(g.Members) == 0 || len(g.Members) > maxMembers {
			return fmt.Errorf("primcast: Groups[%d].Members of group %d has %d processes: name 1 to %d", i, g.ID, len(g.Members), maxMembers)
		}
		for _, p := range g.Members {
			if p == 0 {
				return fmt.Errorf("primcast: Groups[%d].Members of group %d has process 0: number processes from 1", i, g.ID)
			}
			if other, ok := groupOf[p]; ok {
				return fmt.Errorf("primcast: Groups[%d].Members: process %d is in groups %d and %d: take it out of one", i, p, other, g.ID)
			}
			groupOf[p] = g.ID
		}
	}
	return c.validateSelf(groupOf)
}

func (c *Config) validateSelf(groupOf map[multicast.ProcessID]multicast.GroupID) error {
	_, isMember := groupOf[c.Self]
	_, replaces := groupOf[c.Replaces]
	switch {
	case c.Self == 0:
		return fmt.Errorf("primcast: Self is process 0: number processes from 1")
	case c.Replaces == 0 && !isMember:
		return fmt.Errorf("primcast: Self is process %d, in none of the %d groups: add it to one", c.Self, len(c.Groups))
	case c.Replaces != 0 && (isMember || !replaces):
		return fmt.Errorf("primcast: Replaces is process %d for process %d: name a member, for a process that is none", c.Replaces, c.Self)
	}
	return nil
}
