package reads

import (
	"maps"
	"slices"

	"github.com/globalfs/globalfs/internal/posix"
)

// hidden are the fresh queries that wait only for the return of directories. An executed entry costs nothing
// for them, unless it ends the grant of their directory.
type hidden struct {
	by      map[posix.Ino][]*Query // by the directory for which they wait
	count   int
	history uint64   // the history of the partition when the queries were last judged
	added   []*Query // the queries added since the last call of Recall
}

func (h *hidden) add(x *Query) {
	h.by[x.hidden] = append(h.by[x.hidden], x)
	h.count++
	h.added = append(h.added, x)
}

// all returns the queries in a fixed order.
func (h *hidden) all() (all []*Query) {
	for _, dir := range slices.Sorted(maps.Keys(h.by)) {
		all = append(all, h.by[dir]...)
	}
	return all
}

// take removes and returns the queries that wait for a directory.
func (h *hidden) take(dir posix.Ino) []*Query {
	taken := h.by[dir]
	if len(taken) == 0 {
		return nil
	}
	delete(h.by, dir)
	h.count -= len(taken)
	h.added = slices.DeleteFunc(h.added, func(x *Query) bool { return x.hidden == dir })
	return taken
}

// withdraw removes queries.
func (h *hidden) withdraw(gone func(x *Query) bool) {
	if h.count == 0 {
		return
	}
	h.count = 0
	for dir, list := range h.by {
		if h.by[dir] = slices.DeleteFunc(list, gone); len(h.by[dir]) == 0 {
			delete(h.by, dir)
		}
		h.count += len(h.by[dir])
	}
	h.added = slices.DeleteFunc(h.added, gone)
}

// Returned records that the grants of some directories have ended. The next Ready judges the queries that
// have waited for them.
func (q *Queries) Returned(dirs []posix.Ino) {
	if q.hidden.count == 0 {
		return
	}
	for _, dir := range dirs {
		q.waiting = append(q.waiting, q.hidden.take(dir)...)
	}
}

// beginHistory makes the next Ready judge all hidden queries if the partition has begun a new history:
// queries of readers that show an older history get Unseen.
func (q *Queries) beginHistory() {
	if history := q.state.Own().History; history != q.hidden.history {
		q.Reconsider()
		q.hidden.history = history
	}
}

// Recall calls recall with each query that has begun to wait for a directory since the last call.
func (q *Queries) Recall(recall func(x *Query)) {
	for _, x := range q.hidden.added {
		recall(x)
	}
	q.hidden.added = nil
}

// Reconsider makes the next Ready judge all hidden queries, and the next Recall pass the queries that still
// wait.
func (q *Queries) Reconsider() { q.Returned(slices.Sorted(maps.Keys(q.hidden.by))) }

// IsToRecall reports whether Recall has something to do.
func (q *Queries) IsToRecall() bool { return len(q.hidden.added) > 0 }
