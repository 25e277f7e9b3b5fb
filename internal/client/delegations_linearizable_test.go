package client_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/client"
	"github.com/globalfs/globalfs/internal/client/clienttest"
	"github.com/globalfs/globalfs/internal/posix"
)

// A linearizable client sees each change that the holder of a directory has answered, ordered or not: its
// reads recall the directory. Causal reads by others do not.
func TestLinearizableReadsRecall(t *testing.T) {
	inBubble(t, func(t *testing.T, n *clienttest.Network) {
		cfg := n.Config(west)
		cfg.Linearizable = true
		linearizable, err := client.New(cfg)
		require.NoError(t, err)
		defer func() { require.NoError(t, linearizable.Close()) }()
		c, causal := delegating(t, n), n.Client(t, west)
		dir := makeDir(t, c, posix.Root, "d")
		sub := makeDir(t, c, dir.Ino, "sub")
		seen := func(reader *client.Client) error {
			_, err := reader.Lookup(t.Context(), sub.Ino, "f")
			return err
		}
		require.NoError(t, c.Persist(t.Context(), dir.Ino))
		require.NoError(t, causal.Wait(t.Context(), c.Token()))
		ordered := n.Ordered(0)
		f := create(t, c, sub.Ino, "f")
		require.ErrorIs(t, seen(causal), posix.ENOENT)
		require.Equal(t, ordered, n.Ordered(0))
		require.Zero(t, c.Holding().Recalls)
		require.NoError(t, seen(linearizable))
		require.EqualValues(t, 1, c.Holding().Recalls)

		// The other kinds of reads, each of a directory that is held anew.
		for i, look := range []func(dir, file posix.Ino) error{
			func(dir, _ posix.Ino) error {
				names := listNames(t, linearizable, dir)
				require.Equal(t, []string{"g"}, names)
				return nil
			},
			func(_, file posix.Ino) error {
				a, err := linearizable.GetAttr(t.Context(), file)
				require.EqualValues(t, 3, a.Size)
				return err
			},
			func(_, file posix.Ino) error {
				require.Equal(t, "new", string(read(t, linearizable, file, 0, 10)))
				return nil
			},
		} {
			before := c.Holding().Recalls
			held := makeDir(t, c, posix.Root, string(rune('0'+i)))
			g := create(t, c, held.Ino, "g")
			require.NoError(t, c.Persist(t.Context(), held.Ino))
			write(t, c, g.Ino, 0, []byte("new"))
			require.NoError(t, look(held.Ino, g.Ino))
			require.Greater(t, c.Holding().Recalls, before)
			c.Release(g.Ino)
		}
		c.Release(f.Ino)
	})
}

// A query of locks is linearizable in each mount. It recalls the directory of the file, and waits for that.
func TestQueriesOfLocksRecall(t *testing.T) {
	inBubble(t, func(t *testing.T, n *clienttest.Network) {
		c, other := delegating(t, n), n.Client(t, west)
		dir := makeDir(t, c, posix.Root, "d")
		f := create(t, c, dir.Ino, "f")
		require.NoError(t, c.Persist(t.Context(), dir.Ino))
		write(t, c, f.Ino, 0, []byte("new"))
		_, held, err := other.Locked(t.Context(), client.LockRequest{Ino: f.Ino, End: 9, Write: true})
		require.NoError(t, err)
		require.False(t, held)
		require.EqualValues(t, 1, c.Holding().Recalls)
		c.Release(f.Ino)
	})
}
