package primcast

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/pkg/multicast"
)

// tick is the travel time of a message in a cluster.
const tick = 10 * time.Millisecond

// cluster is real cores in lockstep: frames of one round arrive in the next.
type cluster struct {
	t        testing.TB
	procs    []*proc // by id-1
	wire     map[multicast.ProcessID][]multicast.Frame
	down     map[multicast.ProcessID]bool
	lose     func(from, to multicast.ProcessID, k kind) bool // the packets to lose, if not nil
	heard    func(from, to multicast.ProcessID, p packet)    // sees the other packets, if not nil
	early    func(from, to multicast.ProcessID, p packet)    // sees those that leave early, if not nil
	applied  map[multicast.ProcessID][]multicast.Delivery
	behind   map[multicast.ProcessID]multicast.Progress
	retired  map[multicast.ProcessID]bool
	maxFrame int
}

// newCluster starts the processes of g and h, and 7, which is to take the place of 3.
func newCluster(t testing.TB, change ...func(*Config)) *cluster {
	c := &cluster{
		t: t, wire: map[multicast.ProcessID][]multicast.Frame{}, down: map[multicast.ProcessID]bool{},
		applied: map[multicast.ProcessID][]multicast.Delivery{}, behind: map[multicast.ProcessID]multicast.Progress{},
		retired: map[multicast.ProcessID]bool{},
	}
	for id := multicast.ProcessID(1); id <= 7; id++ {
		p := newProc(t, id, append(change, func(cfg *Config) {
			if cfg.FetchAfter == 0 {
				cfg.FetchAfter = 5 * tick
			}
			if id == 7 {
				cfg.Replaces = 3
			}
		})...)
		c.procs = append(c.procs, p)
	}
	for id := range c.procs {
		c.link(multicast.ProcessID(id + 1))
	}
	return c
}

func (c *cluster) proc(id multicast.ProcessID) *proc { return c.procs[id-1] }

// link starts all links of a process anew.
func (c *cluster) link(id multicast.ProcessID) {
	c.wire[id] = nil
	for i := range c.procs {
		other := multicast.ProcessID(i + 1)
		c.wire[id] = append(c.wire[id], multicast.Frame{Peer: other})
		if other != id {
			c.wire[other] = append(c.wire[other], multicast.Frame{Peer: id})
		}
	}
}

// restart restores a process from its log, with all deliveries that it applied.
func (c *cluster) restart(id multicast.ProcessID) {
	now := c.proc(id).instant
	c.procs[id-1] = c.proc(id).restart(c.proc(id).progress(c.applied[id]))
	c.proc(id).instant = now
	c.down[id] = false
	c.link(id)
}

// step runs one process on the received frames, and more input.
func (c *cluster) step(id multicast.ProcessID, in multicast.Input) {
	in.Frames, c.wire[id] = append(c.wire[id], in.Frames...), nil
	in.Covered = c.proc(id).progress(c.applied[id])
	out := c.proc(id).step(in)
	if out.Checkpoint {
		c.proc(id).records = out.Records
	}
	c.applied[id] = append(c.applied[id], out.Deliveries...)
	c.behind[id], c.retired[id] = out.Behind, out.Retired
	for _, f := range out.Early {
		packets, err := decodeFrame(f.Data, nil)
		require.NoError(c.t, err)
		for _, p := range packets {
			if c.early != nil {
				c.early(id, f.Peer, p)
			}
		}
	}
	for _, f := range slices.Concat(out.Early, out.Frames) {
		c.maxFrame = max(c.maxFrame, len(f.Data))
		if data := c.carry(id, f); len(data) > 0 {
			c.wire[f.Peer] = append(c.wire[f.Peer], multicast.Frame{Peer: id, Data: data})
		}
	}
}

// carry returns the part of a frame that arrives.
func (c *cluster) carry(from multicast.ProcessID, f multicast.Frame) (data []byte) {
	if c.down[f.Peer] {
		return nil
	}
	packets, err := decodeFrame(f.Data, nil)
	require.NoError(c.t, err)
	for _, p := range packets {
		if c.lose == nil || !c.lose(from, f.Peer, p.kind) {
			data = appendPacket(data, &p)
			if c.heard != nil {
				c.heard(from, f.Peer, p)
			}
		}
	}
	return data
}

// run lets time pass.
func (c *cluster) run(d time.Duration) {
	for ; d > 0; d -= tick {
		waiting := c.wire
		c.wire = map[multicast.ProcessID][]multicast.Frame{}
		for i, p := range c.procs {
			id := multicast.ProcessID(i + 1)
			p.instant.Mono += tick
			if !c.down[id] {
				arrived := c.wire[id]
				c.wire[id] = waiting[id]
				c.step(id, multicast.Input{})
				c.wire[id] = append(arrived, c.wire[id]...)
			}
		}
	}
}

// cast multicasts from the sender of the messages.
func (c *cluster) cast(messages ...*multicast.Message) {
	for _, m := range messages {
		c.step(m.ID.Sender, multicast.Input{Proposed: []multicast.Message{*m}})
	}
}

// has requires that processes have delivered these sequence numbers.
func (c *cluster) has(seqs []uint64, ids ...multicast.ProcessID) {
	c.t.Helper()
	for _, id := range ids {
		got := delivered(&multicast.Output{Deliveries: c.applied[id]})
		require.Equal(c.t, seqs, got, "process %d: %+v", id, c.proc(id).Stats())
	}
}
