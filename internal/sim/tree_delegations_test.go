package sim

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/internal/client/delegate"
	"github.com/globalfs/globalfs/internal/delegation"
	"github.com/globalfs/globalfs/internal/kv"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/turn"
)

// Clients that hold directories (packages delegation and client/delegate). Each makes directories in the root
// of partition 1, and works there by its log. All clients change and read the directories of the others, too:
// updates of single names by a name of their own, so that the outcome of each operation is known in advance,
// whatever the order. The judge is tree_holders_test.go.

// Situations of delegations.
const (
	workedInLog     treeMark = "an operation was answered from a log"
	batchAgain      treeMark = "a batch was sent again"
	severalBatches  treeMark = "several batches were under way"
	batchEarly      treeMark = "a batch came before an earlier one"
	heardRecall     treeMark = "a client heard of a recall"
	foreignWaited   treeMark = "an update of another client was executed after a return"
	foreignPrefix   treeMark = "another client read a state before the end of the log"
	holderCrashed   treeMark = "a client lost a log with operations that were not acknowledged"
	holderRevived   treeMark = "a client died, and the next one sent operations of its log"
	holderExpired   treeMark = "the session of a client with a log ended"
	revokedGrant    treeMark = "a log stopped because a directory was revoked"
	crossedIntoHeld treeMark = "a command of several partitions took a file out of a held directory"
	waitedForBlock  treeMark = "operations waited until the block of an earlier one was stored"
	revivedBlock    treeMark = "a client died with a block that was not stored"
	blockFailed     treeMark = "the block of a write in a log could not be stored"
)

// TestTreeDelegations: replicas and clients crash, links are cut.
func TestTreeDelegations(t *testing.T) {
	reach := treeReach{}
	seeds(t, 60, func(seed uint64) error {
		h := newTreeHolders()
		h.crashes = seed%3 == 0
		r := treeRun(seed, treeSetup{holders: h})
		return h.judge(r, reach)
	})
	reach.require(t, workedInLog, batchAgain, severalBatches, batchEarly, heardRecall, foreignWaited, foreignPrefix, holderCrashed, holderRevived, crossedIntoHeld,
		waitedForBlock, revivedBlock, blockFailed)
}

// TestTreeDelegationsExpire: sessions end, and clients are silent until their directories are revoked.
func TestTreeDelegationsExpire(t *testing.T) {
	reach := treeReach{}
	seeds(t, 40, func(seed uint64) error {
		h := newTreeHolders()
		h.silent = true
		setup := treeSetup{holders: h}
		if seed%2 == 0 {
			setup.lease = 3 * time.Second
		}
		r := treeRun(seed, setup)
		return h.judge(r, reach)
	})
	reach.require(t, holderExpired, revokedGrant, foreignWaited)
}

const (
	heldPartition = uint16(1)
	holderWork    = 60 // operations of each client
)

// holder is the log of one client, in virtual time.
type holder struct {
	all     *treeHolders
	c       *treeClient
	log     *delegate.Log // nil: none
	history *logHistory
	number  uint64
	deaf    bool // it does not hear recalls, and sends nothing
	made    int
	acked   []delegation.Op // of the log, acknowledged last
	unheard bool            // it has asked for a directory without waiting for the answer
	waiting []func() bool   // callers that wait for the log: true: it is over
	blocks  map[uint64]bool // operations of the log whose block is not stored: true: it can be
}

func (h *holder) session() uint64 { return h.c.session[heldPartition] }

// live is the life of a client.
func (t *treeHolders) live(c *treeClient) {
	h := &holder{all: t, c: c}
	t.holders = append(t.holders, h)
	h.begin()
	h.watch(ask.Watching{Recalls: true})
	c.ready = true
	for i := range holderWork {
		h.operate()
		if i%5 == c.id || c.renewsNow() {
			h.renew()
		}
		c.pause(c.run.net.between(0, 30*time.Millisecond))
	}
	h.deaf = false
	h.drain()
	if h.log != nil {
		h.giveBack(h.log.Dirs())
		h.drain()
	}
	h.forget()
	c.worked = true
	for !t.isOver(c.run) {
		h.renew()
		c.pause(200 * time.Millisecond)
	}
	h.verify()
	c.settle()
}

// begin begins a log.
func (h *holder) begin() {
	h.number++
	log, err := delegate.New(delegate.Config{Partition: heldPartition, Session: h.session(), Number: h.number, Keys: kv.NewMemory()})
	if err != nil {
		h.c.stop("log: %v", err)
	}
	h.log, h.history, h.acked, h.blocks = log, h.all.newHistory(), nil, map[uint64]bool{}
}

// revive continues the log as the next process of a client that has died does, with the operations that the
// journal has: those that are not acknowledged and, if it has died before it noted the last acknowledgement,
// those of this one. A batch may be under way.
func (h *holder) revive() {
	ops, first := h.log.Pending(), h.log.Acknowledged()+1
	if h.c.pick(2) == 0 {
		ops, first = append(slices.Clone(h.acked), ops...), first-uint64(len(h.acked))
		h.history.acknowledged -= len(h.acked)
	}
	if len(ops) > 0 {
		h.c.run.reach[holderRevived]++
	}
	if slices.ContainsFunc(ops, func(o delegation.Op) bool { return h.all.isAdopted(o.Command.Ino) }) {
		h.c.run.reach[revivedAdopted]++
	}
	cfg := delegate.Config{Partition: heldPartition, Session: h.session(), Number: h.number, Keys: kv.NewMemory()}
	log, err := delegate.Restore(cfg, first, ops)
	if err != nil {
		h.c.stop("log: %v", err)
	}
	h.log, h.acked = log, nil
	for _, number := range slices.Sorted(maps.Keys(h.blocks)) {
		h.c.run.reach[revivedBlock]++
		h.withhold(number, h.blocks[number])
	}
	h.drain()
	if h.log == log {
		h.begin()
		h.free()
		h.wake()
	}
}

// lose drops the log with the operations that are not acknowledged, and begins another one.
func (h *holder) lose() {
	h.history.lost = true
	h.begin()
	h.free()
	h.wake()
}

// free begins the log at the partition: that frees the directories of the one before.
func (h *holder) free() {
	x := delegate.Beginning(h.number)
	h.send(meta.Command{Op: meta.OpBatch, Data: x.Append(nil)}, nil, func(meta.Result, bool) {})
}

// renew renews the session in each partition. If the one in the partition of the log has ended, the log is
// lost.
func (h *holder) renew() {
	before := h.session()
	h.c.renew()
	if h.session() != before {
		h.c.run.reach[holderExpired]++
		h.lose()
	}
}

// send sends an update, again and again, and calls done with the result; false: the session has ended.
func (h *holder) send(command meta.Command, dest []uint16, done func(meta.Result, bool)) {
	c, p := h.c, heldPartition
	c.seq[p]++
	q := ask.Request{Kind: ask.Update, Session: c.session[p], Seq: c.seq[p], Dest: dest, Command: command.Append(nil)}
	h.try(q, 0, done)
}

func (h *holder) try(q ask.Request, tries int, done func(meta.Result, bool)) {
	c, net := h.c, h.c.run.net
	if tries > 0 && q.Dest == nil {
		c.run.reach[batchAgain]++
	}
	q.Proofs = c.proofs
	again := func() {
		net.Schedule(net.Now()+net.between(0, 100*time.Millisecond), func() { h.try(q, tries+1, done) })
	}
	net.Call(c.run.groups[heldPartition].nearby(c), turn.Call{Data: q.Append(nil)}, net.between(200*time.Millisecond, 2*time.Second), func(b []byte, arrived bool) {
		reply, err := ask.DecodeReply(b)
		switch {
		case !arrived:
			again()
			return
		case err == nil && (reply.Status == ask.Overloaded || reply.Status == ask.Replaced):
			again()
			return
		case err == nil && reply.Status == ask.UnknownSession:
			done(meta.Result{}, false)
			return
		case err != nil || reply.Status != ask.Answered:
			c.run.fail("client %d: update: status %d %q %v", c.id, reply.Status, reply.Result, err)
			return
		}
		c.adopt(ask.Proof{Vector: reply.Vector, Tag: reply.Tag})
		m, err := meta.DecodeResult(reply.Result)
		if err != nil {
			c.run.fail("client %d: %w", c.id, err)
			return
		}
		done(m, true)
	})
}

// update is send in the coroutine of the client.
func (h *holder) update(command meta.Command, dest ...uint16) (r meta.Result, ok bool) {
	h.c.await(func() {
		h.send(command, dest, func(m meta.Result, known bool) {
			r, ok = m, known
			h.c.resume()
		})
	})
	if !ok {
		h.renew()
	}
	return r, ok
}

// flush sends the next batch, if there is room for it.
func (h *holder) flush() {
	if h.deaf {
		return
	}
	if x, ok := h.log.Next(); ok {
		if h.log.Flying() > 1 {
			h.c.run.reach[severalBatches]++
		}
		for i := range x.Ops {
			if _, waits := h.blocks[x.First+uint64(i)]; waits {
				h.c.run.fail("L7: client %d sends operation %d without its block", h.c.id, x.First+uint64(i))
			}
		}
		h.fly(h.log, h.history, x)
	}
}

// fly sends a batch until all of its operations are acknowledged.
func (h *holder) fly(log *delegate.Log, history *logHistory, x delegation.Batch) {
	if h.log != log {
		return // lost meanwhile
	}
	command := meta.Command{Op: meta.OpBatch, Data: x.Append(nil)}
	if x.First%2 == 0 {
		command.Flags = meta.OnDisk // replicas record the same answer with it, and without
	}
	h.send(command, nil, func(m meta.Result, known bool) {
		if h.log != log {
			h.flush()
			return
		}
		done, err := delegation.DecodeDone(m.Data)
		if !known {
			h.wake() // the next renewal finds out
			return
		}
		if err != nil {
			h.c.run.fail("client %d: %w", h.c.id, err)
			return
		}
		ops, on := log.Acknowledge(&done)
		history.acknowledged += len(ops)
		if len(ops) > 0 {
			h.acked = ops
		}
		switch {
		case !on:
			h.all.stopped(h, &done)
			h.lose()
			return
		case !log.Landed(&x):
			h.c.run.reach[batchEarly]++
			net := h.c.run.net
			net.Schedule(net.Now()+net.between(0, 50*time.Millisecond), func() { h.fly(log, history, x) })
		}
		h.wake()
		h.flush()
	})
}

// wake lets the callers go on that wait no longer.
func (h *holder) wake() {
	waiting := h.waiting
	h.waiting = nil
	for _, over := range waiting {
		if !over() {
			h.waiting = append(h.waiting, over)
		}
	}
}

// drain returns when all operations of the log are acknowledged or lost.
func (h *holder) drain() {
	for h.log.Len() > 0 {
		h.flush()
		h.c.pause(h.c.run.net.between(time.Millisecond, 50*time.Millisecond))
		h.c.accept()
		if h.c.renewsNow() || h.c.pick(10) == 0 {
			h.renew()
		}
	}
}

func (h *holder) giveBack(dirs []posix.Ino) {
	for range dirs {
		h.history.ops = append(h.history.ops, loggedOp{})
	}
	h.log.Return(dirs)
}

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
		h.deaf = false
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

// verify reads all directories at the end: each is as the log of its holder says, after all operations or, if
// the log was lost, after a prefix with all that was acknowledged.
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
