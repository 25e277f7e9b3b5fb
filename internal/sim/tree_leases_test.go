package sim

import (
	"slices"
	"testing"
	"time"

	"github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/internal/client/lease"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/turn"
)

// Clients that cache names and attributes (package lease) watch each partition beside their operations. A
// lookup of a known name, and a look at known attributes, send no request: for the judge, each is an
// answer of the partition at the place that the stream has reached. If a replica happens to be at this
// place, too, its answer must be the same in all bytes.

// Situations of leases.
const (
	foundAbsent   treeMark = "a name was known to be absent"
	foundPresent  treeMark = "the inode of a name was known"
	foundAttr     treeMark = "the attributes of an inode were known"
	comparedAttr  treeMark = "known attributes were compared with those of a replica at the same place"
	foundListing  treeMark = "the entries of a directory were known"
	comparedList  treeMark = "known entries were compared with those of a replica at the same place"
	streamLagged  treeMark = "a client had seen more than its stream had told"
	streamLost    treeMark = "a replica did not have the changes that a stream needed"
	streamForeign treeMark = "a client heard of a change by another one"
	ownAdvanced   treeMark = "an own update advanced a stream"
)

// TestTreeLeases: the tree of TestTree, with clients that cache names. Sessions end, replicas crash, links
// are cut.
func TestTreeLeases(t *testing.T) {
	reach := treeReach{}
	seeds(t, 24, func(seed uint64) error {
		setup := treeSetup{leases: true}
		if seed%3 == 0 {
			setup.lease = 2 * time.Second
		}
		if seed%2 == 0 {
			setup.retain = 1 << 12
		}
		return treeRun(seed, setup).judge(reach)
	})
	reach.require(t, foundAbsent, foundPresent, foundAttr, comparedAttr, foundListing, comparedList, streamLagged, streamLost, streamForeign, ownAdvanced)
}

// treeLeases are the caches of one client, by partition.
type treeLeases []*lease.Cache

func newTreeLeases(c *treeClient) treeLeases {
	if !c.run.leases {
		return nil
	}
	var all treeLeases
	for p := range uint16(len(treeGroups)) {
		all = append(all, lease.New())
		c.run.net.Schedule(time.Duration(c.id+1)*time.Millisecond, func() { c.watch(p) })
	}
	return all
}

// watch asks for changes, over and over.
func (c *treeClient) watch(p uint16) {
	if c.finished {
		return
	}
	cache, net := c.leases[p], c.run.net
	w := cache.Watching(net.between(0, 200*time.Millisecond))
	q := ask.Request{Kind: ask.Watch, Session: c.session[p], Command: w.Append(nil)}
	to := c.run.groups[p].nearby(c)
	net.Call(to, turn.Call{Data: q.Append(nil)}, w.Linger+300*time.Millisecond, func(b []byte, arrived bool) {
		c.watched(p, b, arrived)
		net.Schedule(net.Now()+net.between(0, 20*time.Millisecond), func() { c.watch(p) })
	})
}

// watched processes an answer of a watch.
func (c *treeClient) watched(p uint16, b []byte, arrived bool) {
	reply, err := ask.DecodeReply(b)
	if !arrived || err != nil || reply.Status != ask.Answered {
		c.leases[p].Cut()
		return
	}
	x, err := ask.DecodeChanges(reply.Result)
	if err != nil {
		c.run.fail("client %d: changes of partition %d: %w", c.id, p, err)
		return
	}
	c.adopt(ask.Proof{Vector: reply.Vector, Tag: reply.Tag})
	foreign, all := c.leases[p].Take(&x)
	if all {
		c.run.reach[streamLost]++
	}
	c.run.reach[streamForeign] += len(foreign)
}

// lookCached returns the known inode of a name, 0 if the name is known to be absent, and notes that for the
// judge.
func (c *treeClient) lookCached(dir posix.Ino, name string) (ino posix.Ino, known bool) {
	if c.leases == nil {
		return 0, false
	}
	p := c.at(dir)
	cache, seen := c.leases[p], c.proofs.Merged().Of(p)
	if cache.Lags(seen) {
		c.run.reach[streamLagged]++
	}
	command, result := meta.Command{Op: meta.OpLookup, Ino: dir, Name: name}, meta.Result{Code: posix.ENOENT}
	found, ino := cache.Find(lease.Name{Dir: dir, Name: name}, seen)
	switch found {
	case lease.Unknown:
		return 0, false
	case lease.Absent:
		c.run.reach[foundAbsent]++
	case lease.Present:
		c.run.reach[foundPresent]++
		result = meta.Result{Attr: posix.Attr{Ino: ino}}
	}
	c.noteCached(p, command, result)
	return ino, true
}

// attrCached returns the known attributes of an inode, and notes that for the judge.
func (c *treeClient) attrCached(ino posix.Ino) (posix.Attr, bool) {
	if c.leases == nil {
		return posix.Attr{}, false
	}
	p := c.at(ino)
	a, ok := c.leases[p].Attr(ino, c.proofs.Merged().Of(p))
	if !ok {
		return a, false
	}
	c.run.reach[foundAttr]++
	command := meta.Command{Op: meta.OpGetAttr, Ino: ino}
	c.noteCached(p, command, meta.Result{Attr: a})
	for _, member := range c.run.groups[p].members {
		n, up := c.run.net.Node(member).(*treeNode)
		if !up || n.behind || n.count() != c.leases[p].UpTo() {
			continue
		}
		c.run.reach[comparedAttr]++
		if m := n.machine.Query(&command); m.Code != posix.OK || m.Attr != a {
			c.run.fail("client %d: the known attributes of %d at place %d of partition %d are %+v, a replica has %v %+v", c.id, ino, n.count(), p, a, m.Code, m.Attr)
		}
	}
	return a, true
}

// listCached returns the known entries of a directory, and notes them for the judge.
func (c *treeClient) listCached(dir posix.Ino) ([]meta.Entry, bool) {
	if c.leases == nil {
		return nil, false
	}
	p := c.at(dir)
	entries, last, ok := c.leases[p].Listing(dir, 100, c.proofs.Merged().Of(p))
	if !ok {
		return nil, false
	}
	c.run.reach[foundListing]++
	command := meta.Command{Op: meta.OpReadDir, Ino: dir, Length: 100}
	c.noteCached(p, command, meta.Result{Entries: entries, Number: last})
	for _, member := range c.run.groups[p].members {
		n, up := c.run.net.Node(member).(*treeNode)
		if !up || n.behind || n.count() != c.leases[p].UpTo() {
			continue
		}
		c.run.reach[comparedList]++
		m := n.machine.Query(&command)
		same := m.Code == posix.OK && slices.EqualFunc(m.Entries, entries, func(a, b meta.Entry) bool {
			a.At, b.At = 0, 0 // hints
			return a == b
		})
		if !same {
			c.run.fail("client %d: the known entries of %d at place %d of partition %d are %+v, a replica has %v %+v", c.id, dir, n.count(), p, entries, m.Code, m.Entries)
		}
	}
	return entries, true
}

// noteCached records an answer from the cache for the judge.
func (c *treeClient) noteCached(p uint16, command meta.Command, result meta.Result) {
	h := &c.run.history
	asked := h.add(happening{kind: asks, client: c.id, partition: p})
	h.add(happening{
		kind: reads, client: c.id, partition: p, count: c.leases[p].UpTo(), asked: asked, command: command, result: result,
	})
}

// learnNames adds the names and attributes in the result of a query to the cache.
func (c *treeClient) learnNames(p uint16, asOf ask.Seen, command *meta.Command, m *meta.Result) {
	if c.leases == nil {
		return
	}
	at := lease.Name{Dir: command.Ino, Name: command.Name}
	switch {
	case command.Op == meta.OpLookup && m.Code == posix.OK && command.Name != "..":
		c.leases[p].LearnAttr(&m.Attr, asOf)
		c.leases[p].Learn(at, m.Attr.Ino, asOf)
	case command.Op == meta.OpLookup && m.Code == posix.ENOENT:
		c.leases[p].Learn(at, 0, asOf)
	case command.Op == meta.OpGetAttr && m.Code == posix.OK:
		c.leases[p].LearnAttr(&m.Attr, asOf)
	case command.Op == meta.OpReadDir && m.Code == posix.OK && command.Offset == 0 && uint64(len(m.Entries)) < command.Length:
		for i := range m.Entries {
			c.leases[p].LearnAttr(&m.Entries[i].Attr, asOf)
		}
		c.leases[p].List(command.Ino, m.Entries, m.Number, asOf)
	}
}

// tellAll makes an update of one partition ask for all that it changes.
func (c *treeClient) tellAll(command *meta.Command) {
	switch command.Op {
	case meta.OpMknod, meta.OpLink, meta.OpUnlink, meta.OpRmdir, meta.OpRename:
		if c.leases != nil {
			command.Flags |= meta.ReturnDir
		}
	}
}

// executed applies an own update to the cache, if it was answered at the first try. Links of the simulator
// repeat requests: a stored answer comes with a later place, and does not count.
func (c *treeClient) executed(u *change, p uint16, place ask.Seen) {
	if c.leases == nil || u.dest != nil || u.count != place.Count {
		return
	}
	before := c.leases[p].UpTo()
	lease.Apply(c.leases[p], p, place, &u.command, &u.result)
	if c.leases[p].UpTo() > before {
		c.run.reach[ownAdvanced]++
	}
}
