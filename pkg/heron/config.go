package heron

import (
	"fmt"
	"time"

	"github.com/globalfs/globalfs/pkg/fabric"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// ObjectID identifies an object, uniquely over all groups.
type ObjectID uint64

// Write is a new value of an object.
type Write struct {
	ID    ObjectID
	Value []byte
}

// Application is a deterministic state machine over objects. The results of its methods depend only on their
// arguments. It keeps no reference to them.
type Application interface {
	// Owner returns the group that holds an object.
	Owner(ObjectID) multicast.GroupID
	// Reads returns the remote objects that a group must read to execute a request (the read set). It need
	// not name objects of the group itself.
	Reads(group multicast.GroupID, payload []byte) []ObjectID
	// Execute executes the part of a request that concerns a group. get returns the value of an object of
	// the group or of the read set; nil for an object that was never written, and for all others. The writes
	// are of objects of the group, each at most once.
	Execute(group multicast.GroupID, payload []byte, get func(ObjectID) []byte) (writes []Write, response []byte)
}

// Config of a process. All processes have the same Groups, Objects, ObjectSize and ChunkSize.
type Config struct {
	Self   multicast.ProcessID
	Groups []multicast.Group
	App    Application
	// Objects is the maximum number of objects of each group, and ObjectSize the maximum length of a value
	// in bytes. 0: 1,024 objects of 128 bytes.
	Objects, ObjectSize int
	// Patience is the time for which a process waits in phase 4 for the remaining members, after a quorum
	// has executed the request. A longer wait makes fewer laggers (section III-A). 0: no wait.
	Patience time.Duration
	// HelpAfter is the time after which the next member helps a lagger, and after which another process is
	// asked for the address of an object. 0: 1 ms.
	HelpAfter time.Duration
	// RetryAfter is the time after which a broken queue is reset. 0: 1 ms.
	RetryAfter time.Duration
	// ChunkSize is the size of the pieces of a state transfer, in bytes. 0: 32 KiB (section V-E).
	ChunkSize int
	// KeepUpdates is the number of updates that a process remembers for laggers. A lagger that needs older
	// ones gets all objects. 0: 1 << 16.
	KeepUpdates int
}

// maxProcess is the highest process number: the name of a region contains the process.
const maxProcess = 1<<28 - 1

func (cfg *Config) setDefaults() {
	for _, d := range []struct {
		field *int
		value int
	}{{&cfg.Objects, 1024}, {&cfg.ObjectSize, 128}, {&cfg.ChunkSize, 32 << 10}, {&cfg.KeepUpdates, 1 << 16}} {
		if *d.field == 0 {
			*d.field = d.value
		}
	}
	if cfg.HelpAfter == 0 {
		cfg.HelpAfter = time.Millisecond
	}
	if cfg.RetryAfter == 0 {
		cfg.RetryAfter = time.Millisecond
	}
}

// Validate returns an error that names the invalid field and the remedy.
func (cfg *Config) Validate() error {
	switch {
	case cfg.App == nil:
		return fmt.Errorf("heron: App is nil: give the application")
	case cfg.ObjectSize < 1 || cfg.ObjectSize > 1<<20:
		return fmt.Errorf("heron: ObjectSize: %d is not within 1 and %d", cfg.ObjectSize, 1<<20)
	case cfg.Objects < 1 || cfg.Objects > (fabric.MaxRegion-8)/cfg.slotSize():
		return fmt.Errorf("heron: Objects: %d is not within 1 and %d, which fit into a region", cfg.Objects, (fabric.MaxRegion-8)/cfg.slotSize())
	case cfg.ChunkSize%8 != 0 || cfg.ChunkSize <= chunkHeader || cfg.ChunkSize > 1<<24:
		return fmt.Errorf("heron: ChunkSize: %d is not a multiple of 8 above %d and up to %d", cfg.ChunkSize, chunkHeader, 1<<24)
	case cfg.KeepUpdates < 1:
		return fmt.Errorf("heron: KeepUpdates: %d: give 1 or more", cfg.KeepUpdates)
	case cfg.Patience < 0 || cfg.HelpAfter < 0 || cfg.RetryAfter < 0:
		return fmt.Errorf("heron: Patience %v, HelpAfter %v, RetryAfter %v: give 0 or more", cfg.Patience, cfg.HelpAfter, cfg.RetryAfter)
	}
	return cfg.validateGroups()
}

func (cfg *Config) validateGroups() error {
	groups, processes := map[multicast.GroupID]bool{}, map[multicast.ProcessID]bool{}
	for _, g := range cfg.Groups {
		if groups[g.ID] {
			return fmt.Errorf("heron: Groups: there are two groups %d", g.ID)
		}
		if len(g.Members) == 0 {
			return fmt.Errorf("heron: Groups: group %d has no member", g.ID)
		}
		groups[g.ID] = true
		for _, p := range g.Members {
			if p == 0 || p > maxProcess || processes[p] {
				return fmt.Errorf("heron: Groups: process %d of group %d: give each process a number of its own, up to %d", p, g.ID, maxProcess)
			}
			processes[p] = true
		}
	}
	if !processes[cfg.Self] {
		return fmt.Errorf("heron: Self: process %d is in no group", cfg.Self)
	}
	return nil
}
