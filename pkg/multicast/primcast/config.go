package primcast

import (
	"fmt"
	"time"

	"github.com/globalfs/globalfs/pkg/multicast"
)

// DefaultFetchAfter is above the round trip between any two places on Earth.
const DefaultFetchAfter = time.Second

// DefaultCheckpointMin is 1 MiB.
const DefaultCheckpointMin = 1 << 20

// maxMembers of a group: tallies keep a bit for each.
const maxMembers = 64

// Config of one process.
type Config struct {
	Self multicast.ProcessID
	// Groups are all groups, the same at all processes and after restarts. The first
	// member of a group leads its initial epoch.
	Groups []multicast.Group
	// Delivered is how far the state machine is durable at the start. What is up to here is not
	// delivered again; what is in T after it is.
	Delivered multicast.Position
	// FetchAfter is how long a message may be known by its ACKs only before its
	// content is asked for; 0: DefaultFetchAfter.
	FetchAfter time.Duration
	// CheckpointMin is how many bytes of records are written between two
	// checkpoints at least; 0: DefaultCheckpointMin.
	CheckpointMin int
}

// Validate says which field is wrong, and what to do about it.
func (c *Config) Validate() error {
	if c.FetchAfter < 0 {
		return fmt.Errorf("primcast: FetchAfter is %v: use a positive duration, or 0 for %v", c.FetchAfter, DefaultFetchAfter)
	}
	if c.CheckpointMin < 0 {
		return fmt.Errorf("primcast: CheckpointMin is %d bytes: use a positive number, or 0 for %d", c.CheckpointMin, DefaultCheckpointMin)
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
	if _, ok := groupOf[c.Self]; !ok {
		return fmt.Errorf("primcast: Self is process %d, in none of the %d groups: add it to one", c.Self, len(c.Groups))
	}
	return nil
}
