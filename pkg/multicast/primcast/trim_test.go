package primcast

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/pkg/multicast"
)

// TestMemoryStaysFlat runs two groups for long and looks at what they keep, in memory and on disk.
func TestMemoryStaysFlat(t *testing.T) {
	n := newNetwork(t, 1, 3, 3)
	for round := range 40 {
		for range 50 {
			n.propose(n.nodes[n.rng.IntN(6)])
			n.turn()
		}
		n.settle()
		for _, x := range n.nodes {
			x.durable = len(x.applied)
		}
		if round == 0 {
			continue
		}
		for _, x := range n.nodes {
			require.Less(t, len(x.core.messages), 250)
			require.Less(t, x.core.done.spans(), 20)
			require.Empty(t, x.core.outbox.sent)
			require.Empty(t, x.core.missing)
			bytes := 0
			for _, r := range x.log {
				bytes += len(r)
			}
			require.Less(t, bytes, 100_000)
		}
	}
	n.verify()
}

// TestDeadMemberBlocksNothing: a follower, also a sender, dies for ever; the others go on, and
// forget all that it is no destination of.
func TestDeadMemberBlocksNothing(t *testing.T) {
	for seed := range uint64(20) {
		n := newNetwork(t, seed, 3, 3)
		dead := n.nodes[4]
		for i := range 100 {
			if x := n.nodes[n.rng.IntN(6)]; !n.down[x.id] {
				n.propose(x)
			}
			n.turn()
			if i == 50 {
				dead.gate, dead.lost, n.down[dead.id] = nil, true, true
			}
		}
		n.settle()
		n.verify()
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
