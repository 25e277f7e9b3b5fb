package primcast

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/pkg/multicast"
)

// TestIdleGroupSaysNothing: once all is delivered the members watch for a little longer, then nobody wakes or speaks.
func TestIdleGroupSaysNothing(t *testing.T) {
	n := newNetwork(t, 1, 3)
	m := multicast.Message{ID: multicast.MessageID{Sender: 2, Seq: 1}, Dest: []multicast.GroupID{0}}
	n.sent[m.ID] = &m
	n.step(n.nodes[1], m)
	n.settle()
	for _, x := range n.nodes {
		x.core.pinged(x.core.own.members[1])
	}
	n.now += time.Minute
	n.settle()
	n.verify()
	frames := n.frames
	for range 100 {
		n.now += time.Minute
		for _, x := range n.nodes {
			n.step(x)
			require.Zero(t, x.wake)
		}
	}
	require.Equal(t, frames, n.frames)
}
