package fsck

import (
	"fmt"

	"github.com/globalfs/globalfs/internal/meta"
)

// across checks what partitions say of each other: stores has all, by their numbers. As long as one has not decided a
// command that another may have executed, what is found may be of that.
func (r *Report) across(stores []meta.Keys) {
	inFlight := false
	for id, keys := range stores {
		if n := meta.Undecided(keys); n > 0 {
			inFlight = true
			r.Notes = append(r.Notes, fmt.Sprintf("partition %d waits for others to decide commands of several partitions: %d of them", id, n))
		}
	}
	for _, what := range meta.CheckAll(stores) {
		r.Problems = append(r.Problems, Problem{Where: between, What: what, InFlight: inFlight})
	}
}
