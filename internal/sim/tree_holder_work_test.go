package sim

import (
	"fmt"
	"time"

	"github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/internal/client/delegate"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/turn"
)

// The operations of a holder, in its own directories and in those of others.

// watch asks for recalls, over and over.
func (h *holder) watch(w ask.Watching) {
	c, net := h.c, h.c.run.net
	if c.finished {
		return
	}
	w.Linger = net.between(0, 300*time.Millisecond)
	q := ask.Request{Kind: ask.Watch, Session: h.session(), Command: w.Append(nil)}
	net.Call(c.run.groups[heldPartition].nearby(c), turn.Call{Data: q.Append(nil)}, w.Linger+300*time.Millisecond, func(b []byte, arrived bool) {
		next := w
		if reply, err := ask.DecodeReply(b); arrived && err == nil && reply.Status == ask.Answered {
			x, err := ask.DecodeChanges(reply.Result)
			if err != nil {
				c.run.fail("client %d: recalls: %w", c.id, err)
				return
			}
			next.History, next.From, next.Mark = x.History, x.To, x.Mark
			if len(x.Recalled) > 0 && !h.deaf && q.Session == h.session() {
				c.run.reach[heardRecall]++
				h.giveBack(x.Recalled)
				h.flush()
			}
		}
		net.Schedule(net.Now()+net.between(0, 40*time.Millisecond), func() { h.watch(next) })
	})
}

// operate does one operation.
func (h *holder) operate() {
	c := h.c
	c.accept()
	switch n := c.pick(100); {
	case h.all.crashes && n < 3:
		if h.log.Len() > 0 {
			c.run.reach[holderCrashed]++
		}
		h.lose()
	case h.all.crashes && n < 6:
		h.revive()
	case h.all.silent && n < 4:
		h.deaf = true
		c.pause(c.run.net.between(2*time.Second, 14*time.Second))
		h.deaf, h.heard = false, h.number
		h.renew()
	case h.all.regains && n < 12:
		h.regain()
	case n < 15:
		h.makeRoot()
	case n < 70:
		h.work()
	case n < 82:
		h.foreign()
	case n < 92:
		h.read()
	case n < 95:
		h.drain()
	default:
		h.flush()
	}
	if c.pick(3) == 0 {
		h.flush()
	}
}

// makeRoot makes a directory in the root of the partition.
func (h *holder) makeRoot() {
	h.made++
	name := fmt.Sprintf("d%d-%d", h.c.id, h.made)
	root, number := posix.MakeIno(heldPartition, 1), h.number
	r, ok := h.update(meta.Command{Op: meta.OpDelegate, Ino: root, Name: name, Mode: posix.TypeDir | 0o755, Offset: number})
	switch {
	case !ok:
		return
	case r.Code != posix.OK:
		h.c.stop("mkdir %s: %v", name, r.Code)
	case number != h.number: // the log was lost meanwhile
		h.all.add(h, r.Attr.Ino, nil)
		return
	case r.Number2 == 0:
		h.c.stop("mkdir %s: not granted", name)
	}
	h.log.Granted(r.Attr, root, posix.Ino(r.Number2))
	h.all.add(h, r.Attr.Ino, h.history)
}

// work does something in a held directory.
func (h *holder) work() {
	dirs := h.log.Dirs()
	if len(dirs) == 0 || h.log.IsFull() || h.deaf {
		return
	}
	c := h.c
	dir := h.all.dirs[dirs[c.pick(len(dirs))]]
	name := string(rune('a' + c.pick(6)))
	command := meta.Command{Ino: dir.ino, Name: name, Time: posix.Time(c.run.net.Now())}
	want := posix.ENOENT
	child, exists := dir.names[name]
	if exists {
		want = posix.OK
	}
	if dir.taken[name] {
		return
	}
	if dir.history != h.history {
		h.workInVain(command)
		return
	}
	var to *heldDir
	switch n := c.pick(10); {
	case n < 5:
		command.Op, command.Mode, command.Flags = meta.OpMknod, posix.TypeRegular|0o644, meta.Exclusive
		if n == 0 {
			command.Mode = posix.TypeDir | 0o755
		}
		if want = posix.OK; exists {
			want = posix.EEXIST
		}
	case n < 7:
		command.Op = meta.OpUnlink
		if exists && h.all.dirs[child] != nil {
			command.Op = meta.OpRmdir
			if of := h.all.dirs[child]; len(of.names) > 0 || of.foreign {
				want = posix.ENOTEMPTY
			}
		}
	case n < 8:
		to = h.all.dirs[dirs[c.pick(len(dirs))]]
		command.Op, command.NewParent, command.NewName = meta.OpRename, to.ino, string(rune('a'+c.pick(6)))
		target, replaces := to.names[command.NewName]
		if h.all.dirs[child] != nil || to.history != h.history || to.taken[command.NewName] || replaces && (h.all.dirs[target] != nil || target == child) {
			return
		}
	default:
		if !exists || h.all.dirs[child] != nil {
			return
		}
		command = meta.Command{Op: meta.OpSetAttr, Ino: child, Set: meta.SetMode, Attr: posix.Attr{Mode: 0o600}, Time: command.Time}
		if n == 9 {
			command = meta.Command{Op: meta.OpWrite, Ino: child, Data: []byte("text"), Length: 4, Time: command.Time}
		}
	}
	r, outcome := h.log.Update(&command)
	switch {
	case outcome == delegate.Uncovered:
		if command.Op == meta.OpMknod {
			c.stop("%+v: not covered", command)
		}
		return // its file is covered by a directory that was returned
	case outcome == delegate.Numbers:
		if r, ok := h.update(meta.Command{Op: meta.OpDelegate, Offset: h.number}); ok && r.Code == posix.OK && r.Number2 != 0 {
			h.log.AddNumbers(posix.Ino(r.Number2))
		}
		return
	case r.Code != want:
		c.stop("%+v: %v instead of %v", command, r.Code, want)
	case outcome == delegate.Logged:
		c.run.reach[workedInLog]++
		h.worked(dir, &command)
		h.all.apply(h, loggedOp{dir: dir.ino, name: name, command: command, ino: r.Attr.Ino})
		if write := command.Op == meta.OpWrite; write || c.pick(10) == 0 {
			h.withhold(h.log.Last(), !write || c.pick(3) > 0)
		}
	}
}

// withhold withholds an operation until its block is stored, or is known to be lost: good is false.
func (h *holder) withhold(number uint64, good bool) {
	log, net := h.log, h.c.run.net
	log.Withhold(number)
	h.blocks[number] = good
	net.Schedule(net.Now()+net.between(0, 300*time.Millisecond), func() {
		if h.log != log {
			return // the next process stores it, or the log is lost
		}
		if log.Last() > number {
			h.c.run.reach[waitedForBlock]++
		}
		delete(h.blocks, number)
		if good {
			log.Stored(number)
		} else {
			_, dirs, ok := log.Void(number)
			if !ok {
				h.c.run.fail("client %d: operation %d was not withheld", h.c.id, number)
				return
			}
			h.c.run.reach[blockFailed]++
			h.giveBack(dirs)
		}
		h.flush()
	})
}

// foreign changes a directory of another client by a name of its own, or a file of it, or takes a file of it
// to another partition.
func (h *holder) foreign() {
	dir := h.all.pick(h)
	if dir == nil {
		return
	}
	c := h.c
	h.all.count++
	name := fmt.Sprintf("x%d", h.all.count)
	if taken := dir.free(); c.pick(3) == 0 && taken != "" {
		h.take(dir, taken, name)
		return
	}
	waits := dir.isHeld()
	r, ok := h.update(meta.Command{Op: meta.OpMknod, Ino: dir.ino, Name: name, Mode: posix.TypeRegular | 0o644, Flags: meta.Exclusive})
	switch {
	case !ok, r.Code == posix.ESTALE || r.Code == posix.ENOENT: // removed
		dir.doubtful = true // the session has ended
		return
	case r.Code != posix.OK:
		c.stop("foreign create of %s in %d: %v", name, dir.ino, r.Code)
	}
	dir.others[name] = r.Attr.Ino
	if waits && !dir.isHeld() {
		c.run.reach[foreignWaited]++
	}
	if !dir.history.lost {
		h.list(dir, true)
	}
}

// take renames a file of a directory, which is known to be ordered, to the root of partition 2. No other
// client touches its name.
func (h *holder) take(dir *heldDir, name, to string) {
	dir.taken[name] = true
	h.c.accept()
	for range 200 {
		ino := dir.names[name]
		command := meta.Command{
			Op: meta.OpRename, Ino: dir.ino, Name: name, NewParent: posix.MakeIno(2, 1), NewName: to, Child: ino, Target: heldPartition,
		}
		r, ok := h.update(command, 1, 2)
		switch {
		case !ok || dir.history.lost:
			dir.doubtful = true
			return
		case r.Code == posix.OK:
			h.c.run.reach[crossedIntoHeld]++
			delete(dir.names, name)
			return
		case r.Code == posix.EREMOTE || r.Code == posix.EHELD || r.Code == posix.ETIMEDOUT:
			h.c.pause(h.c.run.net.between(10*time.Millisecond, 300*time.Millisecond))
		case r.Code == posix.ESTALE || r.Code == posix.ENOENT:
			dir.doubtful = true // removed with its directory, or its creation is not ordered yet
			return
		default:
			h.c.stop("foreign rename of %s out of %d: %v", name, dir.ino, r.Code)
		}
	}
	dir.doubtful = true
}
