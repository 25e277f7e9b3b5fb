package sim

import (
	"math"
	"slices"

	"github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
)

// Sessions end when the partition has received nothing from their client for the length of the lease. Then
// the partition forgets the answers that it kept for the session: an update whose answer had not arrived is
// in doubt. It may have been executed; if several partitions vote on it, it may still be executed. Its client
// goes on with a new session and never learns the outcome; the judge reads it from the stores of replicas.

// openSession opens a new session in a partition. If the session ends before its client learns of it, the
// client opens another one.
func (c *treeClient) openSession(p uint16) {
	for opened := false; !opened; {
		c.run.session++
		c.session[p], c.lastBlock[p] = c.run.session, 0
		opened = c.exchange(p, ask.Request{Kind: ask.OpenSession, Session: c.session[p]})
	}
}

// expired goes on after the end of the session in a partition: files held open there may be gone.
func (c *treeClient) expired(p uint16) {
	c.run.reach[sessionExpired]++
	c.held = slices.DeleteFunc(slices.Clone(c.held), func(ino posix.Ino) bool { return ino.Partition() == p })
	c.openSession(p)
}

// renewsNow reports whether the client renews its sessions now: with a probability of two thirds when it is
// time.
func (c *treeClient) renewsNow() bool {
	return c.run.lease != 0 && c.run.net.Now()-c.renewed > c.run.lease/3 && c.pick(3) > 0
}

// renew sends all partitions the files that are held open.
func (c *treeClient) renew() {
	c.renewed = c.run.net.Now()
	for i := range c.run.groups {
		p := uint16(i)
		if c.session[p] == 0 {
			continue
		}
		q := ask.Request{Kind: ask.RenewSession, Session: c.session[p], Horizon: c.horizon(p)}
		for _, ino := range c.held {
			if ino.Partition() == p {
				q.Held = append(q.Held, ino)
			}
		}
		if !c.exchange(p, q) {
			c.expired(p)
		}
	}
}

// exchange sends a request about the session; false if the partition does not know it.
func (c *treeClient) exchange(p uint16, q ask.Request) bool {
	reply, asked := c.call(p, q)
	c.run.history.add(happening{kind: learns, client: c.id, partition: p, count: reply.Vector.Of(p).Count, asked: asked})
	return reply.Status == ask.Answered
}

// noAnswer is the time of an answer that never comes.
const noAnswer = math.MaxInt

// doubt returns the outcome of an update whose session has ended.
func (c *treeClient) doubt(u *change, reply *ask.Reply, asked int) meta.Result {
	u.doubt, u.answered = true, noAnswer
	c.run.history.add(happening{kind: learns, client: c.id, partition: u.asked, count: reply.Vector.Of(u.asked).Count, asked: asked})
	c.expired(u.asked)
	return meta.Result{Code: posix.EIO}
}

// inDoubt gives updates in doubt the result that replicas have stored, and reports the updates without one.
func (r *tree) inDoubt(u *change) bool {
	switch {
	case !u.doubt:
		return false
	case u.at == 0:
		r.reach[neverHappened]++
		return true
	}
	u.result = u.observed
	r.reach[happenedUnanswered]++
	if u.gaveUp && u.withdrew {
		r.reach[withdrawnDone]++
	}
	if u.gaveUp && u.result.Code == posix.OK {
		r.reach[cameLate]++
	}
	return false
}
