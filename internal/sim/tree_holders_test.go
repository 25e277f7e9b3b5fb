package sim

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/globalfs/globalfs/internal/delegation"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
)

// treeHolders is the knowledge of the judge about held directories: all that was answered.
type treeHolders struct {
	crashes bool // clients lose their logs
	silent  bool // clients are silent for a while
	regains bool // clients return directories, and ask for those that exist
	bound   bool // a bound client recalls directories

	holders   []*holder
	dirs      map[posix.Ino]*heldDir
	histories []*logHistory
	count     int // of foreign names
}

func newTreeHolders() *treeHolders { return &treeHolders{dirs: map[posix.Ino]*heldDir{}} }

// heldDir is a directory as its holder has answered.
type heldDir struct {
	ino      posix.Ino
	holder   *holder
	history  *logHistory
	names    map[string]posix.Ino // by the log
	others   map[string]posix.Ino // names of other clients that were answered
	taken    map[string]bool      // names that another client moves away
	doubtful bool                 // an update of another client has an unknown outcome
	adopted  bool                 // its holder got it when it existed
	foreign  bool                 // its holder got it with names of other clients
}

// isHeld reports whether the holder works in the directory.
func (d *heldDir) isHeld() bool {
	return d.holder.history == d.history && slices.Contains(d.holder.log.Dirs(), d.ino)
}

// free returns a file that another client may take, because its creation is ordered; empty: none.
func (d *heldDir) free() string {
	for _, name := range slices.Sorted(maps.Keys(d.names)) {
		if _, isDir := d.holder.all.dirs[d.names[name]]; !isDir && !d.taken[name] && d.history.acknowledged == len(d.history.ops) {
			return name
		}
	}
	return ""
}

// loggedOp is an operation that was answered from a log; the zero value: a return.
type loggedOp struct {
	dir     posix.Ino
	name    string
	command meta.Command
	ino     posix.Ino
}

// logHistory is one log.
type logHistory struct {
	ops          []loggedOp
	acknowledged int
	lost         bool
	roots        []posix.Ino
	bases        []base          // of directories that existed
	seen         map[*holder]int // operations that other clients have certainly seen
}

func (t *treeHolders) newHistory() *logHistory {
	h := &logHistory{seen: map[*holder]int{}}
	t.histories = append(t.histories, h)
	return h
}

// add adds a directory that was made in the root of the partition. history is nil if the log was lost before
// the answer.
func (t *treeHolders) add(h *holder, ino posix.Ino, history *logHistory) {
	d := &heldDir{ino: ino, holder: h, history: history, names: map[string]posix.Ino{}, others: map[string]posix.Ino{}, taken: map[string]bool{}}
	if history == nil {
		d.history = &logHistory{lost: true, seen: map[*holder]int{}}
	} else {
		history.roots = append(history.roots, ino)
	}
	t.dirs[ino] = d
}

// apply applies an operation that was answered.
func (t *treeHolders) apply(h *holder, op loggedOp) {
	h.history.ops = append(h.history.ops, op)
	if op.command.Op == meta.OpMknod && op.command.Mode.IsDir() {
		t.add(h, op.ino, h.history)
		h.history.roots = h.history.roots[:len(h.history.roots)-1]
	}
	all := map[posix.Ino]map[string]posix.Ino{}
	for ino, d := range t.dirs {
		all[ino] = d.names
	}
	op.apply(all)
}

// apply applies an operation to the names of directories.
func (o *loggedOp) apply(dirs map[posix.Ino]map[string]posix.Ino) {
	c := &o.command
	switch c.Op {
	case meta.OpMknod:
		dirs[c.Ino][c.Name] = o.ino
		if c.Mode.IsDir() && dirs[o.ino] == nil {
			dirs[o.ino] = map[string]posix.Ino{}
		}
	case meta.OpUnlink, meta.OpRmdir:
		delete(dirs[c.Ino], c.Name)
	case meta.OpRename:
		moved := dirs[c.Ino][c.Name]
		delete(dirs[c.Ino], c.Name)
		dirs[c.NewParent][c.NewName] = moved
	}
}

// state returns the names in all directories of a log after its first k operations.
func (l *logHistory) state(k int) map[posix.Ino]map[string]posix.Ino {
	dirs := map[posix.Ino]map[string]posix.Ino{}
	for _, root := range l.roots {
		dirs[root] = map[string]posix.Ino{}
	}
	bases := l.bases
	for i := 0; ; i++ {
		for ; len(bases) > 0 && bases[0].at == i; bases = bases[1:] {
			dirs[bases[0].dir] = maps.Clone(bases[0].names)
		}
		if i == k {
			break
		}
		l.ops[i].apply(dirs)
	}
	for _, b := range bases { // the log has got it later, and no operation before has changed it
		if dirs[b.dir] == nil {
			dirs[b.dir] = maps.Clone(b.names)
		}
	}
	return dirs
}

// explains names the contradiction between a log and the final names of its directories; empty: there is
// none.
func (l *logHistory) explains(t *treeHolders, final map[posix.Ino]map[string]posix.Ino) string {
	if !l.lost && l.acknowledged < len(l.ops) {
		return fmt.Sprintf("%d of %d operations are acknowledged, and it is not lost", l.acknowledged, len(l.ops))
	}
	for k := l.acknowledged; k <= len(l.ops); k++ {
		if l.fits(t, l.state(k), final) {
			return ""
		}
	}
	return fmt.Sprintf("lost %v, %d of %d operations acknowledged: the directories have %v, the log says %v", l.lost, l.acknowledged, len(l.ops), final, l.state(len(l.ops)))
}

// fits reports whether final names are those of a state, but for names that other clients have taken.
func (l *logHistory) fits(t *treeHolders, state, final map[posix.Ino]map[string]posix.Ino) bool {
	for ino, names := range final {
		d := t.dirs[ino]
		if d.history != l {
			continue
		}
		want := maps.Clone(state[ino])
		maps.DeleteFunc(want, func(name string, _ posix.Ino) bool { return d.taken[name] })
		if !maps.Equal(want, names) {
			return false
		}
	}
	return true
}

// pick returns a directory, mostly of another client; nil: there is none.
func (t *treeHolders) pick(h *holder) *heldDir {
	inos := slices.Sorted(maps.Keys(t.dirs))
	if len(inos) == 0 {
		return nil
	}
	d := t.dirs[inos[h.c.pick(len(inos))]]
	if d.holder == h {
		return nil
	}
	return d
}

// stopped judges a log that was stopped: only a revoked directory stops it (W4), and only if the client was
// silent meanwhile.
func (t *treeHolders) stopped(h *holder, done *delegation.Done) {
	switch {
	case done.Code != posix.OK:
		h.c.run.fail("W4: client %d: operation %d of its log has the outcome %v, and it has answered another one", h.c.id, done.Next, done.Code)
	case !t.silent, !h.deaf && h.number > h.heard:
		h.c.run.fail("client %d: its log has stopped at operation %d, and it has returned in time", h.c.id, done.Next)
	default:
		h.c.run.reach[revokedGrant]++
	}
}

// isOver reports whether all clients have done their work, and there are no more faults.
func (t *treeHolders) isOver(r *tree) bool {
	return r.net.healed && !slices.ContainsFunc(r.clients, func(c *treeClient) bool { return !c.worked })
}

// judge gives the first error of a run.
func (t *treeHolders) judge(r *tree, reach treeReach) error {
	if r.net == nil || r.net.Err() != nil || len(r.errs) > 0 {
		return errors.Join(append(r.errs, r.netErr())...)
	}
	for _, c := range r.clients {
		if !c.finished {
			return fmt.Errorf("client %d still waits at the end", c.id)
		}
	}
	if err := r.alike(); err != nil {
		return err
	}
	for _, member := range r.groups[heldPartition].members {
		if table, err := delegation.Load(r.disks[member].keys); err != nil || table.Len() > 0 {
			return fmt.Errorf("replica %d: %d directories are still held (%v)", member, table.Len(), err)
		}
	}
	reach.add(r.reach)
	return nil
}
