package tram

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/pkg/multicast"
)

// TestDelays: a hung group is seen at those that send to it and at its parent, with the messages that only
// pass it. Group 2 is on the way to group 4.
func TestDelays(t *testing.T) {
	c := newTestCore(t, 10)
	step(c, Input{Proposed: []multicast.Message{message(10, 1, 2), message(10, 2, 1, 4)}})
	c.begin(0, &Output{})
	c.apply(&entry{from: 10, index: 1, children: []childPosition{{2, 1}}, message: message(10, 2, 1, 4)})
	step(c, Input{Now: 3 * time.Second})
	require.Equal(t, []Delay{
		{Group: 1, Waiting: 1, For: 3 * time.Second},
		{Group: 2, Waiting: 2, Passing: 1, For: 3 * time.Second},
	}, c.Delays())
	c.memory[regionOf(noteRegion, 20)].Store(0, (&note{taken: 1, fromUp: 1}).encode())
	step(c, Input{Now: 4 * time.Second})
	require.Len(t, c.Delays(), 1)
}
