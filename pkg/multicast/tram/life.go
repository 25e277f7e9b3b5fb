package tram

import (
	"github.com/globalfs/globalfs/pkg/fabric"
	"github.com/globalfs/globalfs/pkg/fabric/lane"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// Seat assigns a process to a node from a life on. A process is a seat of its group: when its machine is
// lost, another machine takes over the seat as a new life that has lost its memory (Config.Amnesiac). The
// caller must choose one node for each life, consistently for all processes.
type Seat struct {
	Process multicast.ProcessID
	Life    uint32 // above the lives before
	Node    fabric.NodeID
}

// reborn forgets everything that the memory of a process held, because the process has restarted.
func (c *Core) reborn(p *peer, life uint32) {
	c.stats.Reborn++
	p.life, p.written, p.received = life, note{}, note{}
	c.eachLane(p, (*lane.Lane).Break)
}

// succeed raises the number of this life above that of the configuration, before the first step.
func (c *Core) succeed(life uint32) {
	if life <= c.cfg.Life {
		return
	}
	c.cfg.Life, c.peers[c.cfg.Self].life = life, life
	c.lanes.Fence()
	for _, id := range c.ids {
		c.eachLane(c.peers[id], (*lane.Lane).Break)
	}
	if c.role == leader { // only the first life leads from the start
		c.stepDown()
		c.ts = 0
	}
}

// eachLane changes all lanes to a process, and forgets their operations.
func (c *Core) eachLane(p *peer, change func(*lane.Lane)) {
	change(p.lane)
	at := c.tree.of[p.id]
	for i, id := range at.Members {
		if id != p.id {
			continue
		}
		for _, f := range append([]*flow{c.clients[at.ID]}, c.children...) {
			if f != nil && f.to == at {
				f.copies[i].forget()
				change(f.copies[i].lane)
			}
		}
	}
	if m := c.memberOf(p.id); m != nil {
		m.begin(m.term, m.loss)
		change(m.lane)
	}
}

// seat moves a process to another node. The former node loses its rights, so a process that still runs there
// cannot write here any more.
func (c *Core) seat(s Seat) {
	p := c.peers[s.Process]
	if p == nil || s.Life <= p.life || s.Life > maxLife || s.Node == 0 {
		if p == nil || s.Node == 0 || s.Life > maxLife {
			c.stats.Malformed++
		}
		return
	}
	if s.Process == c.cfg.Self {
		c.retired = true
		return
	}
	leads := fabric.Right{Region: logRegion, Peer: p.node, Rights: fabric.Writable}
	for _, right := range append(c.rightsOf(p), leads) {
		right.Revoke = true
		c.out.Rights = append(c.out.Rights, right)
	}
	p.node = s.Node
	c.out.Rights = append(c.out.Rights, c.rightsOf(p)...)
	c.reborn(p, s.Life)
	c.eachLane(p, func(l *lane.Lane) { l.Move(s.Node) })
}

// rightsOf returns the rights that a process has to the memory of this one, apart from the rights of a
// leader.
func (c *site) rightsOf(p *peer) []fabric.Right {
	all := []fabric.Right{
		{Region: regionOf(clientRegion, p.id), Peer: p.node, Rights: fabric.Writable},
		{Region: regionOf(noteRegion, p.id), Peer: p.node, Rights: fabric.Writable},
	}
	if c.tree.of[p.id] == c.group {
		all = append(all, fabric.Right{Region: logRegion, Peer: p.node, Rights: fabric.Readable})
	}
	if c.group.parent != nil && c.tree.of[p.id] == c.group.parent {
		all = append(all, fabric.Right{Region: regionOf(parentRegion, p.id), Peer: p.node, Rights: fabric.Writable})
	}
	return all
}

// concerns reports whether a message may have concerned both this process and p, so that p must be informed
// of a restart.
func (c *Core) concerns(p *peer) bool {
	at, state := c.tree.of[p.id], c.ledger.state
	if at == c.group || p.received != (note{}) || state.clients[p.id] > 0 || state.children[at.ID] > 0 {
		return true
	}
	f := c.clients[at.ID]
	return f != nil && len(f.entries) > 0 || at == c.group.parent && state.parent > 0
}
