package client_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/client/clienttest"
	"github.com/globalfs/globalfs/internal/posix"
)

// A single change is sent after some milliseconds. Work that goes on needs far fewer commands than one each
// few milliseconds, and another client sees it soon, too.
func TestWorkInAHeldDirectoryNeedsFewCommands(t *testing.T) {
	inBubble(t, func(t *testing.T, n *clienttest.Network) {
		c, other := delegating(t, n), n.Client(t, east)
		dir := makeDir(t, c, posix.Root, "d")
		seen := func(name string) time.Duration {
			began := time.Now()
			c.Release(create(t, c, dir.Ino, name).Ino)
			for _, err := other.Lookup(t.Context(), dir.Ino, name); err != nil; _, err = other.Lookup(t.Context(), dir.Ino, name) {
				time.Sleep(time.Millisecond) // fake time
				other.Observe(n.Client(t, west).Proofs())
				require.Less(t, time.Since(began), time.Second)
			}
			return time.Since(began)
		}
		require.LessOrEqual(t, seen("single"), 10*time.Millisecond)
		before, began := n.Ordered(0), time.Now()
		for i := range 1000 {
			c.Release(create(t, c, dir.Ino, fmt.Sprint(i)).Ino)
			time.Sleep(time.Millisecond) // fake time
		}
		took := time.Since(began)
		require.LessOrEqual(t, n.Ordered(0)-before, int(took/(10*time.Millisecond)))
		require.LessOrEqual(t, seen("last"), 30*time.Millisecond)
		for i := range 5 {
			time.Sleep(100 * time.Millisecond) // fake time
			require.NotZero(t, seen(fmt.Sprint("slow ", i)))
		}
		require.LessOrEqual(t, seen("single again"), 10*time.Millisecond)
	})
}
