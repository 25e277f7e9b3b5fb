package primcast

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/pkg/multicast"
)

// TestPingsEnd: a group without waiting messages falls silent, whichever process pinged before.
func TestPingsEnd(t *testing.T) {
	const tick = 10 * time.Millisecond
	cores := []*Core{newProc(t, 1).Core, newProc(t, 2).Core, newProc(t, 3).Core}
	ping := encode(packet{kind: kindPing})
	wire := [3][]multicast.Frame{1: {{Peer: 3, Data: ping}}, 2: {{Peer: 2, Data: ping}}}
	var last time.Duration
	for now := tick; now < time.Minute; now += tick {
		var next [3][]multicast.Frame
		for i, c := range cores {
			out := &multicast.Output{}
			c.Step(&multicast.Input{Now: multicast.Instant{Mono: now}, Frames: wire[i]}, out)
			for _, f := range out.Frames {
				last = now
				next[f.Peer-1] = append(next[f.Peer-1], multicast.Frame{Peer: c.self.id, Data: f.Data})
			}
		}
		wire = next
	}
	require.Positive(t, last)
	require.Less(t, last, 10*time.Second)
}
