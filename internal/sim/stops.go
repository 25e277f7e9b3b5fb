package sim

import (
	"slices"
	"time"

	"github.com/globalfs/globalfs/pkg/multicast"
)

// mayStop asks the load whether a process may be stopped now.
func (n *Network) mayStop(p *process) bool {
	may := n.cfg.Faults.MayCrash
	return may == nil || may(p.id)
}

// crash stops a process for a while; false if it is not running or must not be stopped.
func (n *Network) crash(until time.Duration, p *process) bool {
	if !p.up || !n.mayStop(p) {
		return false
	}
	p.stop()
	n.Schedule(until, p.restart)
	return true
}

// forget stops the sender of an early frame that has arrived, before the records of its step are durable.
func (n *Network) forget(p *process, early *write) {
	if early != nil && early.leaked && slices.Contains(p.disk.writing, early) && !n.healed && n.percent(n.cfg.Faults.ForgetPercent) {
		n.crash(n.now+n.between(0, n.cfg.Faults.Longest), p)
	}
}

// ahead stops a process. Soon after its restart the others of its group take over its state.
func (n *Network) ahead(until time.Duration, p *process) {
	if n.crash(until, p) {
		n.Schedule(until+n.between(0, 4*n.cfg.LatencyMax), func() {
			if takeOver := n.cfg.Faults.TakeOver; takeOver != nil && p.up && !n.healed {
				takeOver(p.id)
			}
		})
	}
}

// learn stops a process. Right before the restart, the load adds deliveries of another process to its state
// machine.
func (n *Network) learn(until time.Duration, p *process) {
	if n.crash(until, p) {
		n.Schedule(max(n.now, until-1), func() {
			if learned := n.cfg.Faults.Learned; learned != nil {
				learned(p.id)
			}
		})
	}
}

// crashAll stops all processes at once, for different times.
func (n *Network) crashAll() {
	for _, id := range n.ids {
		n.crash(n.now+n.between(0, n.cfg.Faults.Longest), n.processes[id])
	}
}

// kill stops a process for ever, if a majority of its group remains.
func (n *Network) kill(p *process) {
	if p.away || !n.mayStop(p) {
		return
	}
	g := n.groupOf(p.id)
	if g == nil {
		return
	}
	gone := len(g.Members) - n.alive(g) + 1
	most := (len(g.Members) - 1) / 2
	if gone > most {
		return
	}
	n.mark(Killed)
	if gone == most {
		n.mark(KilledMost)
	}
	if p.up {
		p.stop()
	}
	p.away = true
	if killed := n.cfg.Faults.Killed; killed != nil {
		killed(p.id)
	}
}

// alive returns the number of members of a group that were not killed.
func (n *Network) alive(g *multicast.Group) int {
	alive := 0
	for _, p := range g.Members {
		if !n.processes[p].away {
			alive++
		}
	}
	return alive
}

// groupOf returns the initial group of a process; nil for a spare.
func (n *Network) groupOf(p multicast.ProcessID) *multicast.Group {
	i := slices.IndexFunc(n.cfg.Groups, func(g multicast.Group) bool { return slices.Contains(g.Members, p) })
	if i < 0 {
		return nil
	}
	return &n.cfg.Groups[i]
}

// chaseMost is the maximum number of leaders that one chase stops.
const chaseMost = 3

// chase stops the leader of the group of p for a short time, then the next leader. Each leader is stopped
// soon after it begins to lead, in the middle of its work.
type chase struct {
	net     *Network
	group   *multicast.Group
	end     time.Duration
	stopped int
	last    multicast.ProcessID
}

func (n *Network) chase(p *process) {
	if g := n.groupOf(p.id); g != nil {
		c := &chase{net: n, group: g, end: n.now + n.cfg.Faults.Longest}
		c.look()
	}
}

// look stops a leader if there is one, and looks again a little later.
func (c *chase) look() {
	n := c.net
	if n.healed || n.now >= c.end || c.stopped == chaseMost {
		return
	}
	longest := n.cfg.Faults.Longest
	if p := c.leader(); p != nil && n.crash(n.now+n.between(0, longest/2), p) {
		n.trace.add(n.now, "chased", p.id)
		if c.last != 0 && c.last != p.id {
			n.mark(Chased)
		}
		c.stopped++
		c.last = p.id
	}
	n.Schedule(n.now+1+n.between(0, longest/8), c.look)
}

// leader returns a process of the group that leads, or a random member if the load does not know who leads.
func (c *chase) leader() *process {
	leads := c.net.cfg.Faults.Leads
	if leads == nil {
		return c.net.processes[c.group.Members[c.net.rng.IntN(len(c.group.Members))]]
	}
	for _, id := range c.group.Members {
		if p := c.net.processes[id]; p.up && leads(id) {
			return p
		}
	}
	return nil
}

// RestartAll stops all processes now and starts them again at once.
func (n *Network) RestartAll() {
	for _, id := range n.ids {
		if p := n.processes[id]; p.up {
			p.stop()
		}
	}
	for _, id := range n.ids {
		n.processes[id].restart()
	}
}

// Start starts a spare. From then on faults can stop it like any other process, though not for ever.
func (n *Network) Start(spare multicast.ProcessID) {
	p := n.processes[spare]
	p.away = false
	p.restart()
}
