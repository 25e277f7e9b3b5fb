package fsck

import (
	"fmt"
	"slices"

	"github.com/globalfs/globalfs/internal/cross"
	"github.com/globalfs/globalfs/internal/meta"
)

// across compares the partitions with each other. stores has the stores of all partitions, by number. While a
// partition has not decided a command that another one may have executed, this command may be the reason for
// a finding.
func (r *Report) across(stores []meta.Reader) {
	inFlight := false
	for id, keys := range stores {
		if n := meta.Undecided(keys); n > 0 {
			inFlight = true
			r.Notes = append(r.Notes, fmt.Sprintf("partition %d waits for others to decide commands of several partitions: %d of them", id, n))
		}
	}
	for id := range stores {
		if behindOthers(stores, id) {
			inFlight = true
			r.Notes = append(r.Notes, fmt.Sprintf("partition %d has not executed yet what another one has seen of it", id))
		}
	}
	for _, what := range meta.CheckAll(stores) {
		r.Problems = append(r.Problems, Problem{Where: between, What: what, InFlight: inFlight})
	}
}

// behindOthers reports whether some partition has executed a command of several partitions, or a create
// without votes, that partition id has not executed. Stores that were read over the network have no such
// information.
func behindOthers(stores []meta.Reader, id int) bool {
	stored, err := cross.StoredVector(stores[id])
	if err != nil {
		return false // the error was reported when the stores were opened
	}
	own := stored.Of(uint16(id))
	for _, other := range stores {
		vector, err := cross.StoredVector(other)
		seen := vector.Of(uint16(id))
		if err == nil && (seen.Count > own.Count || slices.ContainsFunc(own.Undecided, seen.IsOpen)) {
			return true
		}
	}
	return false
}
