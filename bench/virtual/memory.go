package virtual

import (
	"time"

	"github.com/globalfs/globalfs/internal/turn"
	"github.com/globalfs/globalfs/pkg/fabric"
	"github.com/globalfs/globalfs/pkg/fabric/fabricsim"
)

// Memory is one-sided memory between the processes of a region, with its prices.
type Memory struct {
	LatencyMin, LatencyMax time.Duration // of one direction
	Bandwidth              int           // of each queue, in bytes a second; 0: no limit
	// Step is the price of a step that a write of another process causes, in place of Prices.Wake. A process
	// that spins pays only for looking into its memory.
	Step time.Duration
	Op   time.Duration // to post an operation, and to take its completion
	// Links: the frames between processes of a region are written into rings in the memory of the receiver.
	Links bool
}

// useMemory gives the network one-sided memory.
func (n *Network) useMemory(m *Memory, seed uint64) {
	if m == nil {
		return
	}
	n.memory = m
	n.fabric = fabricsim.New(fabricsim.Config{
		Seed: seed, LatencyMin: m.LatencyMin, LatencyMax: m.LatencyMax, Bandwidth: m.Bandwidth, Timeout: time.Second,
	})
}

// memoryNext returns the time of the next event of the memory, if it comes before that of the queue.
func (n *Network) memoryNext() (at time.Duration, ok bool) {
	if n.fabric == nil {
		return 0, false
	}
	at, ok = n.fabric.Next()
	first, some := n.queue.Next()
	return at, ok && (!some || at <= first)
}

// Operations returns the number of operations on the memory of others until now.
func (n *Network) Operations() int {
	if n.fabric == nil {
		return 0
	}
	s := n.fabric.Stats()
	return s.Writes + s.Reads + s.Resets
}

// use gives a process the memory of an endpoint.
func (m *machine) use(e *fabricsim.Endpoint) {
	m.endpoint = e
	e.OnChange(func() {
		m.touched = true
		m.wakeFor(m.net.memory.Step)
	})
}

// complete puts the ends of operations into a step.
func (m *machine) complete(in *turn.Input) {
	m.touched = false
	if m.endpoint == nil {
		return
	}
	var events fabric.Events
	m.endpoint.Poll(&events)
	in.Completions = events.Completions
}

// reach changes rights and begins operations, as the output of a step says.
func (m *machine) reach(out *turn.Output) {
	if m.endpoint == nil {
		return
	}
	m.net.fabric.Run(m.net.Now)
	for _, right := range out.Rights {
		change := m.endpoint.Grant
		if right.Revoke {
			change = m.endpoint.Revoke
		}
		if err := change(right.Region, right.Peer, right.Rights); err != nil {
			m.net.Err = err
		}
	}
	if err := m.endpoint.Post(out.Ops...); err != nil {
		m.net.Err = err
	}
}

// linkPrices returns the prices of a frame at its sender and at its receiver, and of a step that it causes.
func (n *Network) linkPrices() (send, receive, step time.Duration) {
	if n.memory != nil && n.memory.Links {
		return 2 * n.memory.Op, 0, n.memory.Step
	}
	return n.prices.Frame, n.prices.Frame, n.prices.Wake
}
