package cross

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// TestPostsOfAnAddedPartition: the first message from a partition that was added since is executed, although
// nothing of the partition was observed before.
func TestPostsOfAnAddedPartition(t *testing.T) {
	n := newNode(t, 1)
	numbers := meta.Command{Op: meta.OpNumbers, Length: 8}
	q := posts{from: 5, first: 1, commands: [][]byte{numbers.Append(nil)}}
	require.Less(t, len(n.Vector()), 6)
	n.step(multicast.Frame{Peer: 6, Data: q.encode([]byte{byte(messagePosts)})})
	require.NoError(t, n.run())
	require.EqualValues(t, 1, n.machine.PostsExecuted(5))
}
