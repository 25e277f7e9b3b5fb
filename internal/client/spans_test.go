package client_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/client"
	"github.com/globalfs/globalfs/internal/client/clienttest"
	"github.com/globalfs/globalfs/internal/posix"
)

// viewer views one file, and counts its queries to the partition.
type viewer struct {
	*testing.T
	*client.Client
	network *clienttest.Network
	ino     posix.Ino
	believe time.Duration
}

// sees requires the content at offset, and returns the number of queries.
func (v *viewer) sees(offset uint64, want []byte) int {
	v.Helper()
	replicas := v.network.Processes(0, west)
	before := v.network.Calls(replicas...)
	got, err := v.View(v.Context(), v.ino, make([]byte, len(want)), offset, v.believe)
	require.NoError(v, err)
	require.True(v, bytes.Equal(want, got), "at %d: %d bytes, %d other bytes seen", offset, len(want), len(got))
	return v.network.Calls(replicas...) - before
}

func viewed(t *testing.T, n *clienttest.Network, content []byte) (v *viewer, other *client.Client) {
	other = n.Client(t, east)
	v = &viewer{t, n.Client(t, west), n, create(t, other, posix.Root, "f").Ino, time.Second}
	write(t, other, v.ino, 0, content)
	v.Observe(other.Proofs())
	return v, other
}

// A client that reads a file in sequence seldom queries extents, with holes and the end included.
func TestSequentialViewsAskSeldom(t *testing.T) {
	inBubble(t, func(t *testing.T, n *clienttest.Network) {
		const piece = 128 << 10
		content := bytes.Repeat([]byte("0123456789abcdef"), 5<<20/16)
		v, other := viewed(t, n, content)
		write(t, other, v.ino, 6<<20, content[:1<<20+5])
		content = append(append(content, make([]byte, 1<<20)...), content[:1<<20+5]...)
		v.Observe(other.Proofs())
		asked := 0
		for at := 0; at < len(content); at += piece {
			asked += v.sees(uint64(at), content[at:min(len(content), at+piece)])
		}
		require.Equal(t, 2, asked)
		v.believe = 0
		require.Equal(t, 1, v.sees(0, content[:piece]))
	})
}

// Extents are used for a time, unless this client has since written or seen something that may be newer.
func TestViewsAreAsNewAsWhatWasSeen(t *testing.T) {
	inBubble(t, func(t *testing.T, n *clienttest.Network) {
		first, second, third := bytes.Repeat([]byte("1"), 5000), bytes.Repeat([]byte("2"), 5000), bytes.Repeat([]byte("3"), 5000)
		v, other := viewed(t, n, first)
		require.Equal(t, 1, v.sees(0, first))
		require.Zero(t, v.sees(0, first))
		write(t, other, v.ino, 0, second)
		require.Zero(t, v.sees(0, first), "nobody has told of the second content")
		v.Observe(other.Proofs())
		require.Equal(t, 1, v.sees(0, second))
		write(t, v.Client, v.ino, 0, third)
		require.Equal(t, 1, v.sees(0, third), "the own write")
		write(t, other, v.ino, 0, first)
		time.Sleep(v.believe)
		require.Equal(t, 1, v.sees(0, first), "what is remembered is too old")
		create(t, other, posix.Root, "another file")
		v.Observe(other.Proofs())
		require.Equal(t, 1, v.sees(0, first), "an unknown change of the partition")
	})
}

// A remembered block that was deleted meanwhile makes the client query again.
func TestViewOutlivesCollectedBlocks(t *testing.T) {
	inBubble(t, func(t *testing.T, n *clienttest.Network) {
		first, second := bytes.Repeat([]byte("1"), 5000), bytes.Repeat([]byte("2"), 5000)
		v, other := viewed(t, n, first)
		v.sees(0, first)
		old := ids(t, n.Blocks)
		write(t, other, v.ino, 0, second)
		require.NoError(t, n.Blocks.Delete(t.Context(), old))
		require.Equal(t, 1, v.sees(0, second))
	})
}

// A linearizable client queries for each view.
func TestLinearizableViewsAsk(t *testing.T) {
	inBubble(t, func(t *testing.T, n *clienttest.Network) {
		v, _ := viewed(t, n, bytes.Repeat([]byte("1"), 5000))
		cfg := n.Config(west)
		cfg.Linearizable = true
		c, err := client.New(cfg)
		require.NoError(t, err)
		defer c.Close()
		v.Client = c
		for range 3 {
			require.Positive(t, v.sees(0, bytes.Repeat([]byte("1"), 5000)))
		}
	})
}
