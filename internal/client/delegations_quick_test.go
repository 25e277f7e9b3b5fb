package client_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/client/clienttest"
	"github.com/globalfs/globalfs/internal/posix"
)

// A change is answered at once in a held directory only, and not while the servers are silent.
func TestAnswersAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, n *clienttest.Network) {
		c, other := delegating(t, n), n.Client(t, east)
		require.False(t, c.AnswersAtOnce(posix.Root), "it holds nothing")
		dir := makeDir(t, c, posix.Root, "d")
		a := create(t, c, dir.Ino, "a")
		require.True(t, c.AnswersAtOnce(dir.Ino))
		require.True(t, c.AnswersAtOnce(a.Ino))
		require.False(t, c.AnswersAtOnce(posix.Root))
		require.False(t, other.AnswersAtOnce(a.Ino))

		all := append(n.Processes(0, west), n.Processes(0, east)...)
		n.Fail(clienttest.Silent, all...)
		write(t, c, a.Ino, 0, []byte("x"))
		require.True(t, c.AnswersAtOnce(a.Ino))
		time.Sleep(6 * time.Second) // fake time
		require.False(t, c.AnswersAtOnce(a.Ino))
		n.Fail(clienttest.None, all...)
		require.NoError(t, c.Persist(t.Context(), a.Ino))
		require.True(t, c.AnswersAtOnce(a.Ino))
		c.Release(a.Ino)
	})
}
