package virtual

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A host with two processors takes three pieces of work in their order: the third one waits.
func TestHost(t *testing.T) {
	n := newNetwork(1)
	h := n.NewHost(2)
	var ends []time.Duration
	for _, took := range []time.Duration{10, 30, 5} {
		h.Spend(took, func() { ends = append(ends, n.Now) })
	}
	n.Pass(time.Second)
	require.Equal(t, []time.Duration{10, 15, 30}, ends)
	require.Equal(t, time.Duration(45), h.Busy())
	h.Spend(1, func() { ends = append(ends, n.Now) })
	n.Pass(time.Second)
	require.Equal(t, time.Second+1, ends[3], "both processors are idle again")
}
