package tram

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/pkg/multicast"
)

// TestUsage: proposals that are not ordered take credits. At the leader, slots with entries that a member has
// not applied are in use.
func TestUsage(t *testing.T) {
	c := newTestCore(t, 10)
	require.Equal(t, Usage{Slots: 64, Credits: 64}, c.Usage())
	var all []multicast.Message
	for n := range uint64(3) {
		all = append(all, message(10, n+1, 1))
	}
	step(c, Input{Proposed: all})
	require.Equal(t, Usage{Slots: 64, Credits: 61}, c.Usage())
	for n := range uint64(3) {
		e := &entry{from: 10, index: n + 1, message: all[n]}
		e.encode(n + 1)
		c.ledger.push(e)
	}
	require.Equal(t, 3, c.Usage().Used)
	c.memory[regionOf(noteRegion, 11)].Store(0, (&note{applied: 2}).encode())
	c.memory[regionOf(noteRegion, 12)].Store(0, (&note{applied: 3, taken: 3}).encode())
	step(c, Input{})
	require.Equal(t, Usage{Slots: 64, Used: 1, Credits: 64}, c.Usage())
	follower := newTestCore(t, 11)
	require.Equal(t, Usage{Slots: 64, Credits: 64}, follower.Usage())
}
