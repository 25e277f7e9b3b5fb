package fsck

import (
	"fmt"
	"slices"

	"github.com/globalfs/globalfs/internal/meta"
)

// Problem is one contradiction.
type Problem struct {
	Where string `json:"where"` // a partition, a replica of one, or between partitions
	What  string `json:"what"`
	// InFlight means that a command in progress may be the reason.
	InFlight bool `json:"in_flight,omitempty"`
}

// String returns the problem in one line.
func (p Problem) String() string {
	if p.InFlight {
		return fmt.Sprintf("%s: possibly in flight: %s", p.Where, p.What)
	}
	return fmt.Sprintf("%s: %s", p.Where, p.What)
}

// Partition is the counts of one partition.
type Partition struct {
	ID       uint16 `json:"partition"`
	Replicas int    `json:"replicas"` // number of checked replicas
	Inodes   uint64 `json:"inodes"`
	Entries  uint64 `json:"entries"`
	Blocks   uint64 `json:"blocks"`         // number of blocks in use
	Read     uint64 `json:"blocks_checked"` // number of them that were checked
}

// Report is the result of a check.
type Report struct {
	Partitions []Partition `json:"partitions"`
	Problems   []Problem   `json:"problems"`
	LeftOut    int         `json:"problems_left_out,omitempty"` // number of problems that Cut has removed
	Notes      []string    `json:"notes,omitempty"`             // limits of the report, with their reasons
}

// Sound reports whether the check has found no fault. Problems with InFlight do not count.
func (r *Report) Sound() bool {
	return r.LeftOut == 0 && !slices.ContainsFunc(r.Problems, func(p Problem) bool { return !p.InFlight })
}

// Cut leaves at most limit problems in the report. It first removes problems with InFlight.
func (r *Report) Cut(limit int) {
	slices.SortStableFunc(r.Problems, func(a, b Problem) int {
		switch {
		case a.InFlight == b.InFlight:
			return 0
		case b.InFlight:
			return -1
		}
		return 1
	})
	if over := len(r.Problems) - limit; over > 0 {
		r.Problems, r.LeftOut = r.Problems[:limit], r.LeftOut+over
	}
}

func (r *Report) add(where string, what ...string) {
	for _, w := range what {
		r.Problems = append(r.Problems, Problem{Where: where, What: w})
	}
}

// between is the place of problems that concern several partitions.
const between = "between partitions"

func partitionName(id uint16) string { return fmt.Sprintf("partition %d", id) }

// count describes a partition.
func count(id uint16, keys meta.Reader, replicas int) Partition {
	n := meta.Count(keys)
	return Partition{ID: id, Replicas: replicas, Inodes: n.Inodes, Entries: n.Entries, Blocks: n.Blocks}
}
