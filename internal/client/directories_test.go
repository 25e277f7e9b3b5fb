package client_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/client/clienttest"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
)

// After every kind of own change, by any caller, the attributes that a client remembers of a directory equal
// those of a query.
func TestRecentDir(t *testing.T) {
	inBubble(t, func(t *testing.T, n *clienttest.Network) {
		c, ctx := n.Client(t, west), t.Context()
		cred := posix.Cred{}
		var dirs []posix.Ino
		for i := range 2 {
			d, err := c.Mkdir(ctx, cred, at(posix.Root, fmt.Sprint("d", i)), 0o755)
			require.NoError(t, err)
			dirs = append(dirs, d.Ino)
		}
		seed := rand.Uint64()
		t.Logf("seed %d", seed)
		r := rand.New(rand.NewPCG(seed, 0))
		known := 0
		for range 300 {
			var callers sync.WaitGroup
			for range 1 + r.IntN(3) {
				from, to := at(dirs[r.IntN(2)], fmt.Sprint(r.IntN(9))), at(dirs[r.IntN(2)], fmt.Sprint(r.IntN(9)))
				kind := r.IntN(12)
				callers.Go(func() {
					switch kind {
					case 0:
						_ = c.Rename(ctx, cred, from, to, 0)
					case 1:
						if a, err := c.Lookup(ctx, from.Dir, from.Name); err == nil {
							_, _ = c.Link(ctx, cred, a.Ino, to)
						}
					case 2:
						_, _ = c.SetAttr(ctx, cred, from.Dir, meta.SetMode, posix.Attr{Mode: 0o700})
					case 3:
						_ = c.SetXattr(ctx, cred, from.Dir, "user.x", []byte("y"), 0)
					case 4, 5:
						_ = c.Unlink(ctx, cred, from)
					case 6:
						_, _ = c.Mkdir(ctx, cred, from, 0o755)
					case 7:
						_ = c.Rmdir(ctx, cred, from)
					default:
						_, _ = c.Create(ctx, cred, from, 0o644, meta.Exclusive)
					}
				})
			}
			callers.Wait()
			for _, dir := range dirs {
				recent, age, ok := c.RecentDir(dir, time.Second)
				now, err := c.GetAttr(ctx, dir)
				require.NoError(t, err)
				if ok {
					known++
					require.Equal(t, now, recent)
					require.Less(t, age, time.Second)
				}
			}
			time.Sleep(time.Millisecond)
		}
		require.Greater(t, known, 50)
		time.Sleep(time.Second)
		_, _, ok := c.RecentDir(dirs[0], time.Second)
		require.False(t, ok)
	})
}
