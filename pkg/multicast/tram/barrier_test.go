package tram

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/pkg/multicast"
)

// Nothing is ordered behind a barrier, by its leader or by a new one (B1).
func TestNothingBehindABarrier(t *testing.T) {
	c := newTestCore(t, 10)
	step(c, Input{})
	b := c.NewBarrier(1, []byte("next"))
	require.NoError(t, c.Validate(&b))
	c.memory[regionOf(clientRegion, 11)].Store(c.cfg.place(1), seal(1, appendMessage(nil, &multicast.Message{
		ID: multicast.MessageID{Sender: 11, Seq: 1}, Dest: b.Dest, Order: Barrier,
	})))
	m := message(12, 1, 1)
	c.memory[regionOf(clientRegion, 12)].Store(c.cfg.place(1), seal(1, appendMessage(nil, &m)))
	step(c, Input{})
	require.Equal(t, uint64(1), c.ledger.last())
	require.True(t, c.ledger.tail.sealed)
	e := entry{from: 12, index: 1, message: m}
	require.False(t, c.follows(c.ledger.tail, &e))

	b.Dest = b.Dest[1:]
	require.Error(t, c.Validate(&b), "a barrier goes to all groups")
}

// A barrier gives back exactly the messages that a group has not ordered (B3).
func TestBarrierGivesBack(t *testing.T) {
	c := newTestCore(t, 30)
	step(c, Input{Proposed: []multicast.Message{message(30, 1, 2), message(30, 2, 2), message(30, 3, 2)}})
	c.memory[regionOf(noteRegion, 20)].Store(0, (&note{taken: 1, sealed: true}).encode())
	out := step(c, Input{})
	require.Len(t, out.Returned, 2)
	require.Equal(t, uint64(2), out.Returned[0].ID.Seq)
	require.Zero(t, c.Pending())
	out = step(c, Input{Proposed: []multicast.Message{message(30, 4, 2)}})
	require.Len(t, out.Returned, 1)
}
