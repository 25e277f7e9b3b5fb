package primcast

import (
	"slices"
	"time"

	"github.com/globalfs/globalfs/pkg/multicast"
)

// missing is a message that is known from an entry of T and whose content is missing.
type missing struct {
	id  multicast.MessageID
	due time.Duration // the time to fetch its content
}

// expect schedules a fetch of START(m). Usually START(m) arrives from its sender before, unless the sender
// crashed.
func (c *variables) expect(id multicast.MessageID) {
	c.missing = append(c.missing, missing{id: id, due: c.now + c.config.FetchAfter})
}

// fetch requests the contents and entries that are overdue. Repeated requests go to different processes that
// have them, so that a process which is down or slow does not block the fetch.
func (c *variables) fetch(out *multicast.Output) {
	for len(c.missing) > 0 {
		first := c.missing[0]
		m := c.messages[first.id]
		isMissing := m != nil && !m.started
		if isMissing && first.due > c.now {
			wake(out, first.due)
			break
		}
		c.missing = c.missing[1:]
		if isMissing {
			m.requests++
			holder := m.namedIn.members()[m.requests%len(m.namedIn.members())]
			holder.frame = (&fetchPacket{m.ID}).append(holder.frame)
			c.stats.Fetched++
			c.expect(m.ID)
		}
	}
	for _, id := range c.groupIDs {
		c.fetchEntries(c.groups[id], out)
	}
}

// namedBy returns a group other than the own one with m in its T, for a message that has left the own T; nil
// if there is none.
func (c *system) namedBy(m *message) *group {
	for _, id := range c.groupIDs {
		g := c.groups[id]
		if g != c.own && (m.localTS(id) != 0 || slices.ContainsFunc(g.entries, func(x entry) bool { return x.message == m })) {
			return g
		}
	}
	return c.own
}

// fetchEntries requests missing entries of the T of g: members have acknowledged them, and they have not
// arrived from the primary in time. The requests go to the members in turn.
func (c *variables) fetchEntries(g *group, out *multicast.Output) {
	if g.fetchAt == 0 {
		return
	}
	if g.fetchAt > c.now {
		wake(out, g.fetchAt)
		return
	}
	g.fetchAt = 0
	for range g.members() {
		g.fetches++
		if q := g.members()[g.fetches%len(g.members())]; c.isAhead(q) {
			g.fetchAt = c.now + c.config.FetchAfter
			wake(out, g.fetchAt)
			if !q.fetching {
				c.gap(q)
				return
			}
		}
	}
}

// onFetch sends START(m) to q. If the content does not fit into the frame, q requests it again.
func (c *variables) onFetch(q *peer, id multicast.MessageID) {
	m := c.messages[id]
	if m == nil && c.done.has(id) {
		q.sendForgotten()
	}
	if m != nil && m.logged && m.To(q.group.id) && c.room(q) {
		prev := uint64(0)
		if q.group == c.own {
			prev = m.prev
		}
		q.sendStart(&m.Message, prev)
	}
}
