package skeen

import (
	"slices"

	"github.com/globalfs/globalfs/pkg/multicast"
)

// asks reports whether the delivery of p needs acknowledgements. The START of p must have arrived.
func (p *pending) asks() bool {
	return p.start.Order == multicast.AtomicGlobal && len(p.start.Dest) > 1
}

// acknowledge sends the acknowledgement of p (line 16), unless that was done before.
func (c *Core) acknowledge(p *pending) {
	if !p.ackedOwn {
		p.ackedOwn = true
		c.send(p.start.Dest, packet{id: p.id, ack: true})
	}
}

// acknowledgeInOrder keeps I4, along the messages that are not delivered, in their order.
func (c *Core) acknowledgeInOrder() {
	var open []*pending // messages that ask for acknowledgements and do not have all of them
	for _, p := range c.local {
		if !p.asks() {
			continue
		}
		if p.final && !slices.ContainsFunc(open, func(o *pending) bool { return !o.goesWith(p) }) {
			c.acknowledge(p)
		}
		if !p.final || !c.isAcked(p) {
			open = append(open, p)
		}
	}
}

// goesWith reports whether p goes to all destinations of m.
func (p *pending) goesWith(m *pending) bool {
	return !slices.ContainsFunc(m.start.Dest, func(g multicast.GroupID) bool { return !p.start.To(g) })
}

// onAck handles an ACK (lines 17-18). The ACK never arrives before the START, since its sender has the
// LOCAL-TS of this process. It never arrives after the delivery, which needs it.
func (c *Core) onAck(from multicast.ProcessID, id multicast.MessageID) {
	p := c.pending[id]
	if p == nil || p.start == nil || slices.Contains(p.acked, from) {
		c.stats.Repeated++
		return
	}
	p.acked = append(p.acked, from)
}

// isAcked reports whether all destinations have acknowledged p.
func (c *Core) isAcked(p *pending) bool {
	return !slices.ContainsFunc(p.start.Dest, func(g multicast.GroupID) bool {
		return !slices.Contains(p.acked, c.process[g])
	})
}
