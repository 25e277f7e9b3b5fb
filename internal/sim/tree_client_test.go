package sim

import (
	"iter"
	"slices"
	"time"

	"github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/turn"
)

// vectorKeys are the keys that prove vectors in all runs.
var vectorKeys = ask.Keys{[]byte("of the simulator")}

// maxTreeProofs bounds the proofs of one client: from its last reply, and from the messages of other clients.
const maxTreeProofs = 16

// treeClient does one operation after the other, as internal/client does: it looks up the partitions of
// inodes, uses one partition if it can, several if it must, and tries again after a lock or a move.
//
// Its operations are sequential code in a coroutine of the network: the coroutine stands still while an
// answer is on the way.
type treeClient struct {
	run     *tree
	id      int
	session []uint64 // by partition
	proofs  ask.Proofs
	seq     []uint64             // of the last update, by partition
	where   map[posix.Ino]uint16 // of inodes away from their home
	dirs    []posix.Ino          // that it has met
	files   []posix.Ino
	held    []posix.Ino // files that it holds open

	leases    treeLeases // nil: it caches no names
	lastBlock []uint64   // counter of the newest block of its session, by partition
	writing   writing
	hasty     bool // it soon gives up a call without an answer
	gaveUp    bool

	resume   func() (struct{}, bool)
	yield    func(struct{}) bool
	renewed  time.Duration // when it last began to renew its sessions
	ready    bool          // its sessions are open
	worked   bool          // it has finished its operations
	rested   bool          // it has released all
	finished bool
}

func newTreeClient(r *tree, id int) *treeClient {
	c := &treeClient{
		run: r, id: id, session: make([]uint64, len(r.groups)), seq: make([]uint64, len(r.groups)), where: map[posix.Ino]uint16{},
		lastBlock: make([]uint64, len(r.groups)),
	}
	for p := range treeGroups {
		c.dirs = append(c.dirs, posix.MakeIno(uint16(p), 1))
	}
	c.leases = newTreeLeases(c)
	c.resume, _ = iter.Pull(func(yield func(struct{}) bool) {
		c.yield = yield
		c.live()
		c.finished = true
	})
	r.net.Schedule(time.Duration(id)*time.Millisecond, c.goOn)
	return c
}

func (c *treeClient) goOn() { c.resume() }

// await calls start, and waits until an event that start has scheduled calls c.goOn.
func (c *treeClient) await(start func()) {
	start()
	c.yield(struct{}{})
}

func (c *treeClient) pause(d time.Duration) {
	c.await(func() { c.run.net.Schedule(c.run.net.Now()+d, c.goOn) })
}

// backOff waits longer with each try, and never twice the same.
func (c *treeClient) backOff(try int) {
	most := 10 * time.Millisecond << min(try, 6)
	c.pause(c.run.net.between(most/2, most))
}

// stop records an error and stands still for ever: the run ends.
func (c *treeClient) stop(format string, args ...any) {
	c.run.fail("client %d: "+format, append([]any{c.id}, args...)...)
	for {
		c.await(func() {})
	}
}

func (c *treeClient) pick(n int) int { return c.run.net.Rand().IntN(n) }

// call sends a request to some replica of a partition, and after a while to another one, until one answers.
// It gives the event of the last try.
func (c *treeClient) call(p uint16, q ask.Request) (ask.Reply, int) {
	for tries := 0; ; {
		if reply, asked, ok := c.attempt(p, q); ok {
			return reply, asked
		} else if c.isLost(&tries) && q.Kind == ask.Query {
			lost := meta.Result{Code: posix.ESTALE}
			return ask.Reply{Result: lost.Append(nil)}, asked
		}
	}
}

// attempt sends a request once; false if it is not answered.
func (c *treeClient) attempt(p uint16, q ask.Request) (reply ask.Reply, asked int, ok bool) {
	asked = c.run.history.add(happening{kind: asks, client: c.id, partition: p})
	q.Proofs = c.proofs
	var answer []byte
	to := c.run.groups[p].nearby(c)
	patience := c.run.net.between(100*time.Millisecond, 1500*time.Millisecond)
	if c.hasty {
		patience /= 10
	}
	c.await(func() {
		c.run.net.Call(to, turn.Call{Data: q.Append(nil)}, patience, func(b []byte, arrived bool) {
			answer, ok = b, arrived
			c.resume()
		})
	})
	if !ok {
		return reply, asked, false
	}
	reply, err := ask.DecodeReply(answer)
	switch {
	case err == nil && reply.Status == ask.Replaced:
		c.run.reach[sentAway]++
		return reply, asked, false
	case err == nil && reply.Status == ask.Unseen && c.run.power:
		c.run.reach[unseenAgain]++
		c.adopt(ask.Proof{Vector: reply.Vector, Tag: reply.Tag}) // of the new history
		return reply, asked, false
	case err == nil && reply.Status == ask.Overloaded:
		c.backOff(3)
		return reply, asked, false
	case err != nil || reply.Status != ask.Answered && (reply.Status != ask.UnknownSession || c.run.lease == 0):
		c.stop("request %+v to partition %d: status %d %q %v", q, p, reply.Status, reply.Result, err)
	}
	c.adopt(ask.Proof{Vector: reply.Vector, Tag: reply.Tag})
	return reply, asked, true
}

// adopt adds a proof. A reply covers the proofs of its request, so few are needed.
func (c *treeClient) adopt(p ask.Proof) {
	if c.proofs = c.proofs.Add(p); len(c.proofs) > maxTreeProofs {
		c.stop("%d proofs are needed", len(c.proofs))
	}
}

// query asks one partition, and notes the answer for the judge.
func (c *treeClient) query(p uint16, command meta.Command) meta.Result {
	reply, asked := c.call(p, ask.Request{Kind: ask.Query, Fresh: c.run.linear, Command: command.Append(nil)})
	m, err := meta.DecodeResult(reply.Result)
	if err != nil {
		c.stop("query %+v of partition %d: %v", command, p, err)
	}
	c.learnNames(p, reply.Vector.Of(p), &command, &m)
	kind := reads
	if m.Code == posix.EHELD {
		kind = learns // the query was not answered
	}
	c.run.history.add(happening{
		kind: kind, client: c.id, partition: p, count: reply.Vector.Of(p).Count, asked: asked, command: command, result: m,
	})
	return m
}

// update sends an update to one partition until it is answered. dest lists the partitions of an update of
// several.
func (c *treeClient) update(p uint16, command meta.Command, dest ...uint16) meta.Result {
	dest = slices.Compact(slices.Sorted(slices.Values(dest)))
	if len(dest) < 2 {
		dest = nil
		c.tellAll(&command)
	}
	if c.session[p] == 0 { // of a partition that was added
		c.openSession(p)
	}
	h := &c.run.history
	u := &change{number: len(h.changes) + 1, client: c.id, dest: dest, asked: p, session: c.session[p]}
	command.Cred.UID = uint32(u.number)
	u.command = command
	h.changes = append(h.changes, u)
	c.seq[p]++
	h.bySeq[updateName{p, c.session[p], c.seq[p]}] = u
	h.add(happening{kind: issues, client: c.id, change: u})
	u.issued = h.clock
	q := ask.Request{
		Kind: ask.Update, Session: c.session[p], Seq: c.seq[p], Done: c.seq[p] - 1,
		Dest: dest, Fresh: c.run.linear && dest != nil, Command: command.Append(nil),
	}
	reply, asked, ok := c.attempt(p, q)
	first := ok
	for tries := 0; !ok && !c.hasty; {
		if c.isLost(&tries) {
			return meta.Result{Code: posix.ESTALE}
		}
		reply, asked, ok = c.attempt(p, q)
	}
	if !ok {
		return c.giveUp(u)
	}
	if reply.Status == ask.UnknownSession {
		return c.doubt(u, &reply, asked)
	}
	var err error
	if u.result, err = meta.DecodeResult(reply.Result); err != nil {
		c.stop("update %+v of partition %d: %v", command, p, err)
	}
	h.add(happening{kind: learns, client: c.id, change: u, partition: p, count: reply.Vector.Of(p).Count, asked: asked})
	u.answered = h.clock
	if first {
		c.executed(u, p, reply.Vector.Of(p))
	}
	return u.result
}

// at returns the partition of an inode, as far as the client knows.
func (c *treeClient) at(ino posix.Ino) uint16 {
	if p, ok := c.where[ino]; ok {
		return p
	}
	return ino.Partition()
}

func (c *treeClient) learn(ino posix.Ino, p uint16) {
	delete(c.where, ino)
	if int(p) < len(c.run.groups) && p != ino.Partition() {
		c.where[ino] = p
	}
}

// askAbout sends a query to the partition of its inode; ESTALE if no partition has the inode.
func (c *treeClient) askAbout(command meta.Command) meta.Result {
	for try := 0; ; try++ {
		p := c.at(command.Ino)
		m := c.query(p, command)
		switch {
		case m.Code == posix.EREMOTE && m.Attr.Ino == command.Ino:
			c.learn(command.Ino, uint16(m.Number))
		case m.Code == posix.ESTALE && p != command.Ino.Partition():
			c.learn(command.Ino, command.Ino.Partition())
		default:
			return m
		}
		if try > 0 {
			c.backOff(try)
		}
	}
}

// locate finds the partition of an inode; false if the inode no longer exists.
func (c *treeClient) locate(ino posix.Ino) (posix.Attr, bool) {
	if a, ok := c.attrCached(ino); ok {
		return a, true
	}
	m := c.askAbout(meta.Command{Op: meta.OpGetAttr, Ino: ino})
	if m.Code != posix.OK && m.Code != posix.ESTALE {
		c.stop("stat of %d: %v", ino, m.Code)
	}
	return m.Attr, m.Code == posix.OK
}

// lookup finds a name; ino 0 if the name is absent, ok false if dir is gone.
func (c *treeClient) lookup(dir posix.Ino, name string) (ino posix.Ino, ok bool) {
	if ino, known := c.lookCached(dir, name); known {
		return ino, true
	}
	m := c.askAbout(meta.Command{Op: meta.OpLookup, Ino: dir, Name: name})
	switch c.code(&m) {
	case posix.OK:
		if m.Attr.Nlink == 0 {
			c.learn(m.Attr.Ino, uint16(m.Number))
		} else {
			c.learn(m.Attr.Ino, c.at(dir))
		}
		c.meet(m.Attr)
		return m.Attr.Ino, true
	case posix.ENOENT:
		return 0, true
	case posix.ESTALE:
		c.forget(dir)
		return 0, false
	}
	c.stop("lookup of %q in %d: %v", name, dir, m.Code)
	return 0, false
}

// meet remembers an inode for later operations.
func (c *treeClient) meet(a posix.Attr) {
	if a.Mode.IsDir() {
		c.dirs = remember(c.dirs, a.Ino)
	} else {
		c.files = remember(c.files, a.Ino)
	}
}

func remember(all []posix.Ino, ino posix.Ino) []posix.Ino {
	if !slices.Contains(all, ino) {
		all = append(all, ino)
	}
	return all
}

func (c *treeClient) forget(ino posix.Ino) {
	delete(c.where, ino)
	if ino.Counter() != 1 {
		c.dirs = slices.DeleteFunc(c.dirs, func(i posix.Ino) bool { return i == ino })
	}
	c.files = slices.DeleteFunc(c.files, func(i posix.Ino) bool { return i == ino })
}

// ruleOf gives the partition where a child of dir is made under a name.
func (c *treeClient) ruleOf(dir posix.Ino, name string) uint16 {
	m := c.askAbout(meta.Command{Op: meta.OpRule, Ino: dir})
	rule, err := meta.DecodeRule(m.Data)
	if m.Code != posix.OK || err != nil {
		return c.at(dir)
	}
	return rule.Place(c.at(dir), name)
}

// tell gives the knowledge of this client to another one: "message, then look".
func (c *treeClient) tell(other *treeClient) {
	if other == c {
		return
	}
	c.run.history.add(happening{kind: passes, client: c.id, other: other.id})
	for _, p := range c.proofs {
		other.adopt(p)
	}
	other.dirs = append(other.dirs[:0:0], other.dirs...)
	for _, ino := range c.dirs {
		other.dirs = remember(other.dirs, ino)
	}
	for _, ino := range c.files {
		other.files = remember(other.files, ino)
	}
}
