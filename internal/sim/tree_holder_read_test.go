package sim

import (
	"maps"
	"slices"

	"github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
)

// The reads of a holder, each compared with the possible states.

// read lists a directory of another client.
func (h *holder) read() {
	if dir := h.all.pick(h); dir != nil {
		h.list(dir, false)
	}
}

// list lists a directory. complete means that the directory is free for this client: it sees all that was
// answered.
func (h *holder) list(dir *heldDir, complete bool) {
	c := h.c
	held, answered := dir.isHeld(), maps.Clone(dir.names)
	complete = complete && !held // nobody has got it again
	reply, _ := c.call(heldPartition, ask.Request{Kind: ask.Query, Command: (&meta.Command{Op: meta.OpReadDir, Ino: dir.ino, Length: 100}).Append(nil)})
	m, err := meta.DecodeResult(reply.Result)
	if err != nil || m.Code != posix.OK {
		return // it is removed, or not made yet
	}
	names := map[string]posix.Ino{}
	for i := range m.Entries {
		if e := &m.Entries[i]; e.Name[0] != 'x' {
			names[e.Name] = e.Attr.Ino
		}
	}
	switch {
	case dir.doubtful || dir.history.lost || len(dir.taken) > 0:
	case complete && (dir.isHeld() || !maps.Equal(answered, dir.names)):
	case complete && !h.all.silent && !maps.Equal(names, dir.names): // a silent holder has not heard of a revocation
		c.stop("W8: after a return, directory %d has %v, and its holder has answered %v", dir.ino, names, dir.names)
	case !complete && held && dir.isHeld():
		h.isPrefix(dir, names)
	}
}

// isPrefix checks that another client sees a prefix of the log: in each directory not less than it has seen
// before in others (W6, W7).
func (h *holder) isPrefix(dir *heldDir, names map[string]posix.Ino) {
	from := dir.history.seen[h]
	for k := from; k <= len(dir.history.ops); k++ {
		state := dir.history.state(k)[dir.ino]
		if state != nil && maps.Equal(state, names) {
			dir.history.seen[h] = k
			if k < len(dir.history.ops) {
				h.c.run.reach[foreignPrefix]++
			}
			return
		}
	}
	h.c.stop("W6: directory %d has %v: no prefix of the log from operation %d on has these", dir.ino, names, from)
}

// verify reads all directories at the end. Each directory must have the state after all operations of its
// holder's log or, if the log was lost, after a prefix of the log with all acknowledged operations.
func (h *holder) verify() {
	if h.c.id != 0 {
		return
	}
	final := map[posix.Ino]map[string]posix.Ino{}
	for _, ino := range slices.Sorted(maps.Keys(h.all.dirs)) {
		dir := h.all.dirs[ino]
		m, _ := h.c.call(heldPartition, ask.Request{Kind: ask.Query, Fresh: true, Command: (&meta.Command{Op: meta.OpReadDir, Ino: ino, Length: 100}).Append(nil)})
		r, err := meta.DecodeResult(m.Result)
		if err != nil {
			h.c.stop("%v", err)
		}
		if r.Code != posix.OK {
			continue // removed
		}
		names := map[string]posix.Ino{}
		for i := range r.Entries {
			names[r.Entries[i].Name] = r.Entries[i].Attr.Ino
		}
		for name, made := range dir.others {
			if names[name] != made {
				h.c.stop("directory %d: the file %s of another client is inode %d, not %d", ino, name, names[name], made)
			}
		}
		maps.DeleteFunc(names, func(name string, _ posix.Ino) bool { return name[0] == 'x' || dir.taken[name] })
		final[ino] = names
	}
	for i, history := range h.all.histories {
		if problem := history.explains(h.all, final); problem != "" {
			h.c.stop("log %d: %s", i, problem)
		}
	}
}
