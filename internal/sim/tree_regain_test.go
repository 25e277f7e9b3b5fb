package sim

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/internal/client/delegate"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
)

// Clients that get directories which exist: those that they have returned or lost, and those of others.

const (
	regained      treeMark = "a client got a directory that existed"
	regainedOther treeMark = "a client got a directory that another one had made"
	regainRefused treeMark = "a client did not get a directory that another one holds"
	regainUnheard treeMark = "a client asked for a directory, and did not wait for the answer"
	workedInVain  treeMark = "a client worked in a directory that was revoked and given to another one"
	usedAdopted   treeMark = "an operation on a file of a directory that existed was answered from a log"
	// The next client has no copy of the directory.
	revivedAdopted treeMark = "a client died, and the next one sent operations in a directory that existed"
)

// TestTreeDelegationsRegain: clients return directories, and get them and those of others. Replicas and
// clients crash, links are cut.
func TestTreeDelegationsRegain(t *testing.T) {
	reach := treeReach{}
	seeds(t, 60, func(seed uint64) error {
		h := newTreeHolders()
		h.crashes, h.regains = seed%3 == 0, true
		r := treeRun(seed, treeSetup{holders: h})
		return h.judge(r, reach)
	})
	reach.require(t, workedInLog, heardRecall, foreignWaited, foreignPrefix, regained, regainedOther, regainRefused, regainUnheard, usedAdopted, revivedAdopted)
}

// TestTreeDelegationsRegainExpire: sessions end, and clients are silent until their directories are revoked.
func TestTreeDelegationsRegainExpire(t *testing.T) {
	reach := treeReach{}
	seeds(t, 120, func(seed uint64) error {
		h := newTreeHolders()
		h.silent, h.regains = true, true
		setup := treeSetup{holders: h}
		if seed%2 == 0 {
			setup.lease = 3 * time.Second
		}
		r := treeRun(seed, setup)
		return h.judge(r, reach)
	})
	reach.require(t, holderExpired, revokedGrant, regained, regainedOther, workedInVain)
}

// regain asks for a directory that exists, or returns one.
func (h *holder) regain() {
	c := h.c
	if held := h.log.Dirs(); len(held) > 1 && c.pick(3) == 0 {
		h.giveBack([]posix.Ino{held[c.pick(len(held))]})
		return
	}
	free := slices.DeleteFunc(slices.Sorted(maps.Keys(h.all.dirs)), func(dir posix.Ino) bool {
		return h.log.Covers(dir) || h.log.IsReturning(dir)
	})
	if len(free) == 0 || h.deaf {
		return
	}
	dir := h.all.dirs[free[c.pick(len(free))]]
	held, log := dir.isHeld(), h.log
	request := log.Ask(dir.ino, 0)
	request.Flags = meta.NumberGrant
	if c.pick(4) == 0 {
		c.run.reach[regainUnheard]++
		h.unheard = true
		h.send(request, nil, func(meta.Result, bool) {})
		return
	}
	r, ok := h.update(request)
	switch {
	case !ok || h.log != log:
		return
	case r.Code != posix.OK:
		c.stop("request for directory %d: %v", dir.ino, r.Code)
	case r.Attr.Ino == 0:
		if held && dir.isHeld() {
			c.run.reach[regainRefused]++
		}
		return
	}
	if r.Number2 != 0 {
		log.AddNumbers(posix.Ino(r.Number2))
	}
	pages, complete := h.carry(dir.ino)
	if h.log != log || log.WasReturned(dir.ino) {
		return
	}
	if !complete || log.Adopt(dir.ino, pages) != nil {
		h.giveBack([]posix.Ino{dir.ino})
		return
	}
	h.adopted(dir)
}

// carry reads the copy of a directory that the client holds.
func (h *holder) carry(dir posix.Ino) (pages [][]byte, complete bool) {
	c := meta.Command{Op: meta.OpCarry, Ino: dir, Length: 100}
	for {
		reply, _ := h.c.call(heldPartition, ask.Request{Kind: ask.Query, Command: c.Append(nil)})
		m, err := meta.DecodeResult(reply.Result)
		if err != nil || m.Code != posix.OK {
			return nil, false // the session has ended, and the directory is removed
		}
		pages = append(pages, slices.Clone(m.Data))
		if c.Offset = m.Number; c.Offset == 0 {
			return pages, true
		}
	}
}

// adopted reports to the judge that the client holds a directory with the names in its copy. The copy must
// have all changes that the previous holder has answered (W8).
func (h *holder) adopted(dir *heldDir) {
	h.c.run.reach[regained]++
	if dir.holder != h {
		h.c.run.reach[regainedOther]++
	}
	r, ok := h.log.Query(&meta.Command{Op: meta.OpReadDir, Ino: dir.ino, Length: 1000})
	if !ok || r.Code != posix.OK {
		h.c.stop("directory %d, which was adopted: %v %v", dir.ino, ok, r.Code)
	}
	names, all := map[string]posix.Ino{}, map[string]posix.Ino{}
	for i := range r.Entries {
		e := &r.Entries[i]
		if all[e.Name] = e.Attr.Ino; e.Name[0] != 'x' {
			names[e.Name] = e.Attr.Ino
		}
	}
	for name, made := range dir.others {
		if all[name] != made {
			h.c.stop("W8: directory %d was adopted with %v, without %s of another client", dir.ino, all, name)
		}
	}
	sure := !dir.doubtful && !dir.history.lost && len(dir.taken) == 0 && !h.all.silent
	if sure && !maps.Equal(names, dir.names) {
		h.c.stop("W8: directory %d was adopted with %v, and its holder has answered %v", dir.ino, names, dir.names)
	}
	dir.holder, dir.history, dir.names, dir.doubtful, dir.adopted = h, h.history, names, false, true
	dir.foreign = len(all) > len(names)
	h.history.bases = append(h.history.bases, base{len(h.history.ops), dir.ino, maps.Clone(names)})
}

// workInVain creates a file in a directory whose grant was revoked, while the client has not learned this,
// and another client holds the directory. The partition must not execute the operation (W3).
func (h *holder) workInVain(command meta.Command) {
	command.Op, command.Mode, command.Flags = meta.OpMknod, posix.TypeRegular|0o644, meta.Exclusive
	if _, outcome := h.log.Update(&command); outcome == delegate.Logged {
		h.c.run.reach[workedInVain]++
		h.history.ops = append(h.history.ops, loggedOp{})
	}
}

// worked records an operation on a file that lived in an adopted directory before.
func (h *holder) worked(dir *heldDir, command *meta.Command) {
	if dir.adopted && command.Op != meta.OpMknod && h.log.Covers(command.Ino) {
		h.c.run.reach[usedAdopted]++
	}
}

// isAdopted reports whether an inode is a directory that existed when its holder got it.
func (t *treeHolders) isAdopted(ino posix.Ino) bool {
	dir := t.dirs[ino]
	return dir != nil && dir.adopted
}

// base has the names of a directory when a log has got it.
type base struct {
	at    int // the operations before
	dir   posix.Ino
	names map[string]posix.Ino
}

// forget ends the grants that the client does not know of, because it did not wait for the answers.
func (h *holder) forget() {
	for h.unheard {
		h.begin()
		x := delegate.Beginning(h.number)
		_, ok := h.update(meta.Command{Op: meta.OpBatch, Data: x.Append(nil)})
		h.unheard = !ok
	}
}
