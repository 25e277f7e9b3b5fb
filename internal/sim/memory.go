package sim

import (
	"time"

	"github.com/globalfs/globalfs/internal/turn"
	"github.com/globalfs/globalfs/pkg/fabric"
	"github.com/globalfs/globalfs/pkg/fabric/fabricsim"
)

// remote is a node of a network with Config.Memory. Its endpoint has the number of the process. The fabric
// has its own faults, and each fault of kind Cut may also cut a process off from the memory of others.
type remote interface {
	turn.Node
	Endpoint() *fabricsim.Endpoint
}

// memoryNext returns the time of the next event of the fabric, if it is not after the next event of the
// queue.
func (n *Network) memoryNext() (at time.Duration, ok bool) {
	if n.memory == nil {
		return 0, false
	}
	at, ok = n.memory.Next()
	first, some := n.queue.Next()
	return at, ok && (!some || at <= first)
}

// syncMemory sets the clock of the fabric.
func (n *Network) syncMemory() {
	if n.memory != nil {
		n.memory.Run(n.now)
	}
}

// joinMemory connects a starting process to the fabric.
func (p *process) joinMemory() {
	if p.net.memory == nil {
		return
	}
	p.endpoint = p.node.(remote).Endpoint()
	p.endpoint.OnChange(p.wake)
}

// loseMemory stops the node of a process.
func (p *process) loseMemory() {
	if p.net.memory != nil {
		p.net.memory.Crash(fabric.NodeID(p.id))
	}
}

// completed adds the completions of operations to the input of a step.
func (p *process) completed(in *turn.Input) {
	if p.net.memory == nil {
		return
	}
	var events fabric.Events
	p.endpoint.Poll(&events)
	in.Completions = append(in.Completions, events.Completions...)
}

// reach changes rights and begins operations, as the output of a step demands.
func (p *process) reach(out *turn.Output) {
	for _, right := range out.Rights {
		change := p.endpoint.Grant
		if right.Revoke {
			change = p.endpoint.Revoke
		}
		if err := change(right.Region, right.Peer, right.Rights); err != nil {
			p.net.fail(err)
		}
	}
	if len(out.Ops) == 0 {
		return
	}
	if err := p.endpoint.Post(out.Ops...); err != nil {
		p.net.fail(err)
	}
}

// cutMemory cuts the access to memory between a process and others until a time: between the process and some
// or all others, in one direction or both.
func (n *Network) cutMemory(p *process, until time.Duration) {
	if n.memory == nil || n.percent(30) {
		return
	}
	both, all := n.percent(50), n.percent(50)
	for _, id := range n.ids {
		if id == p.id || !all && n.percent(50) {
			continue
		}
		a, b := fabric.NodeID(p.id), fabric.NodeID(id)
		if !both && n.percent(50) {
			a, b = b, a
		}
		n.memory.Cut(a, b)
		if both {
			n.memory.Cut(b, a)
		}
		n.Schedule(until, func() {
			n.memory.Mend(a, b)
			n.memory.Mend(b, a)
		})
	}
}

// healMemory ends the faults of the fabric.
func (n *Network) healMemory() {
	if n.memory != nil {
		n.memory.Heal()
	}
}
