package primcast

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/pkg/multicast"
)

// everyDest are all destinations in two groups.
var everyDest = [][]multicast.GroupID{{1}, {2}, both}

// castFrom multicasts a message from a process.
func (c *cluster) castFrom(sender multicast.ProcessID, seq uint64, dest ...multicast.GroupID) {
	m := msg(seq, dest...)
	m.ID.Sender = sender
	c.cast(m)
}

// TestMemoryStaysFlat runs two groups for long and checks the size of their state, in memory and on disk.
func TestMemoryStaysFlat(t *testing.T) {
	c := newCluster(t, func(cfg *Config) { cfg.CheckpointMin = 600 })
	c.run(2 * tick)
	const rounds, batch = 40, 50
	for round := range rounds {
		for i := range batch {
			n := round*batch + i
			c.castFrom(multicast.ProcessID(n%6+1), uint64(n+1), everyDest[n/6%3]...)
			if n%5 == 0 {
				c.run(tick)
			}
		}
		c.run(20 * tick)
		if round == 0 {
			continue
		}
		for _, p := range c.procs[:6] {
			require.Less(t, len(p.messages), 250)
			require.Less(t, p.done.spans(), 20)
			require.Empty(t, p.outbox.sent)
			require.Empty(t, p.missing)
			bytes := 0
			for _, r := range p.records {
				bytes += len(r)
			}
			require.Less(t, bytes, 100_000)
		}
	}
	want := map[multicast.GroupID]int{}
	for n := range rounds * batch {
		for _, g := range everyDest[n/6%3] {
			want[g]++
		}
	}
	for id := multicast.ProcessID(1); id <= 6; id++ {
		require.Len(t, c.applied[id], want[c.proc(id).own.id], "process %d", id)
	}
}

// TestDeadMemberBlocksNothing: a follower, also a sender, dies for ever, at any time; the others deliver all
// their multicasts, and forget all messages that do not have the dead process as a destination.
func TestDeadMemberBlocksNothing(t *testing.T) {
	const dead, last = 5, 60
	for dies := uint64(1); dies < last; dies += 3 {
		c := newCluster(t)
		c.run(2 * tick)
		want := map[multicast.ProcessID]map[multicast.MessageID]bool{}
		for seq := uint64(1); seq <= last; seq++ {
			if seq == dies {
				c.down[dead] = true
			}
			sender, dest := multicast.ProcessID(seq%6+1), everyDest[seq/6%3]
			if c.down[sender] {
				continue
			}
			c.castFrom(sender, seq, dest...)
			for id := multicast.ProcessID(1); id <= 6; id++ {
				if m := (&multicast.Message{Dest: dest}); sender != dead && id != dead && m.To(c.proc(id).own.id) {
					if want[id] == nil {
						want[id] = map[multicast.MessageID]bool{}
					}
					want[id][multicast.MessageID{Sender: sender, Seq: seq}] = true
				}
			}
			if seq%2 == 0 {
				c.run(tick)
			}
		}
		c.run(5 * time.Second)
		c.castFrom(1, last+1, 1) // its frames carry the coverage
		c.run(20 * tick)
		c.castFrom(2, last+2, 1)
		c.run(20 * tick)
		for id, all := range want {
			for _, d := range c.applied[id] {
				delete(all, d.ID)
			}
			require.Empty(t, all, "process %d, %d dies at %d", id, dead, dies)
		}
		for id := multicast.ProcessID(1); id <= 3; id++ {
			for _, m := range c.proc(id).messages {
				require.True(t, m.ID.Seq > last || m.To(2), "process %d keeps %v", id, m.ID)
			}
		}
	}
}

func TestStartAgainOfDeliveredMessageIsAnswered(t *testing.T) {
	sender := newProc(t, 5)
	sender.cast(msg(1, 1))
	again := sender.said(sender.hear(1), 1, kindStart) // the link starts again
	for p := multicast.ProcessID(1); p <= 3; p++ {
		sender.hear(p, packet{kind: kindHave, message: multicast.Message{ID: msg(1).ID}})
	}
	require.Empty(t, sender.outbox.sent)
	require.Empty(t, said(t, sender.hear(1), 1, kindStart))

	c := newProc(t, 1)
	c.loopback(c.hear(5, startOf(msg(1, 1), 0)))
	out := c.hear(2, ackOf(epochG, 1, 1))
	require.Equal(t, []uint64{1}, delivered(out))
	at := out.Deliveries[0].Position()
	c.step(multicast.Input{Covered: multicast.UpTo(at)})
	for p := multicast.ProcessID(2); p <= 3; p++ {
		c.hear(p, packet{kind: kindCovered, position: at})
	}
	require.Zero(t, c.Stats().Entries, "all cover it")
	out = c.hear(5, again)
	c.said(out, 5, kindHave)
	require.Empty(t, out.Records)
}

// TestCoversWhatTheLogHolds: the state machine has learned a message that is not in T. The other processes
// must keep it until it is.
func TestCoversWhatTheLogHolds(t *testing.T) {
	at := multicast.Position{Final: 4, ID: msg(1).ID}
	c, m := newProc(t, 2).restart(multicast.UpTo(at)), msg(1, both...)
	out := c.step(multicast.Input{Covered: multicast.UpTo(at), Frames: []multicast.Frame{{Peer: 3, Data: encode(packet{kind: kindPing})}}})
	require.Empty(t, said(t, out, 3, kindCovered))
	c.hear(5, startOf(m, 0))
	c.hear(1, entryOf(epochG, 1, 4, m), ackOf(epochG, 1, 4))
	c.hear(3, ackOf(epochG, 1, 4))
	c.hear(4, entryOf(epochH, 1, 3, m), ackOf(epochH, 1, 3))
	require.Empty(t, c.hear(6, ackOf(epochH, 1, 3)).Deliveries, "the state machine has it")
	c.hear(5, startOf(msg(2, 1), 1))
	out = c.step(multicast.Input{Covered: multicast.UpTo(at), Frames: []multicast.Frame{{Peer: 1, Data: encode(entryOf(epochG, 2, 5, msg(2, 1)))}}})
	require.NotEmpty(t, out.Records, "final timestamps go with other records")
	require.Equal(t, at, c.said(out, 1, kindCovered).position)
}

// TestCoversNoMoreThanTheLogHolds: messages delivered here are covered, though the state machine is ahead.
func TestCoversNoMoreThanTheLogHolds(t *testing.T) {
	c, at := deliveredOne(t, 2)
	ahead := multicast.Position{Final: at.Final + 1, ID: msg(2).ID}
	out := c.step(multicast.Input{Covered: multicast.UpTo(ahead), Frames: []multicast.Frame{{Peer: 3, Data: encode(packet{kind: kindPing})}}})
	require.Equal(t, at, c.said(out, 3, kindCovered).position)
}
