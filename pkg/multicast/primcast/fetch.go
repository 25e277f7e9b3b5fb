package primcast

import (
	"time"

	"github.com/globalfs/globalfs/pkg/multicast"
)

// missing is a message that was learned from an ACK, without its content.
type missing struct {
	id  multicast.MessageID
	due time.Duration // then its content is asked for
}

// expect waits for START(m) from its sender, which comes unless that crashed.
func (c *Core) expect(id multicast.MessageID) {
	c.missing = append(c.missing, missing{id: id, due: c.now + c.fetchAfter})
}

// fetch asks for the contents that are overdue, each from a process that acknowledged the message
// and so holds it until this one covers it; the next time from another.
func (c *Core) fetch(out *multicast.Output) {
	for len(c.missing) > 0 {
		first := c.missing[0]
		m := c.messages[first.id]
		isMissing := m != nil && !m.started
		if isMissing && first.due > c.now {
			out.Wake = first.due
			return
		}
		c.missing = c.missing[1:]
		if isMissing {
			holder := m.holder()
			holder.frame = appendFetch(holder.frame, m.ID)
			c.stats.Fetched++
			c.expect(m.ID)
		}
	}
}

// holder gives the processes that acknowledged m in turn.
func (m *message) holder() *peer {
	var holders []*peer
	for i := range m.tallies {
		for _, q := range m.tallies[i].group.members {
			if m.tallies[i].acked&(1<<q.member) != 0 {
				holders = append(holders, q)
			}
		}
	}
	m.asked++
	return holders[m.asked%len(holders)]
}

// answer sends START(m) to q, which asked for it.
func (c *Core) answer(q *peer, id multicast.MessageID) {
	if m := c.messages[id]; m != nil && m.logged && m.To(q.group.id) {
		c.sendStart(q, &m.Message, 0)
	}
}
