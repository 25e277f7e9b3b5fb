package dev

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/client"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/topology"
)

// cutTimeout is the timeout of operations in clusters with a cut. It is longer than the time for which a
// command of several partitions waits for its partitions.
const cutTimeout = 4 * time.Second

// prompt is the maximum time of an operation that does not wait for a disconnected region.
const prompt = 2 * time.Second

// quick runs do, which must not wait for a disconnected region.
func quick(t *testing.T, do func() error) {
	t.Helper()
	begin := time.Now()
	require.NoError(t, do())
	require.LessOrEqual(t, time.Since(begin), prompt)
}

func cutConfig(t *testing.T) Config {
	cfg := testConfig(t.TempDir())
	cfg.WAN, cfg.Timeout = true, cutTimeout
	return cfg
}

// A region is cut off. Both sides continue with their own partitions. The smaller side reads the global
// partition in a state of known age. An operation that needs both sides ends in time and leaves nothing
// behind. After the cut everything works at once.
func TestRegionCutOff(t *testing.T) {
	w := startWorld(t, cutConfig(t))
	ctx, eu, us := t.Context(), w.clients[ireland], w.clients[west]
	write(t, us, posix.Root, "global", "as of before")
	for r, root := range w.roots {
		write(t, w.clients[r], root, "local", string(r))
	}
	sends, err := us.Mkdir(ctx, posix.Cred{}, client.Name{Dir: w.roots[west], Name: "sends"}, 0o755)
	require.NoError(t, err)
	require.NoError(t, us.Place(ctx, posix.Cred{}, sends.Ino, client.Placement{Spread: []topology.Region{ireland}}))
	write(t, us, sends.Ino, "before", "of a file in Ireland")
	eu.Observe(us.Proofs())
	require.Equal(t, "as of before", read(t, eu, posix.Root, "global"))
	at := func(r topology.Region, name string) client.Name { return client.Name{Dir: w.roots[r], Name: name} }
	local := func(r topology.Region, name string) func() error {
		return func() error {
			_, err := w.clients[r].Create(ctx, posix.Cred{}, at(r, name), 0o644, 0)
			return err
		}
	}

	require.NoError(t, w.Cut(ireland))
	for r := range w.roots {
		quick(t, local(r, "made at once"))
	}
	// This age exceeds the time for which replicas consider each other reachable: from then on no new command
	// of both sides starts.
	var age time.Duration
	require.Eventually(t, func() bool {
		was := age
		var err error
		age, err = eu.Stale(ctx, posix.Root)
		return err == nil && age >= was && age > 3*time.Second
	}, 30*time.Second, 50*time.Millisecond, "the age of what is read grows")
	quick(t, func() error { require.Equal(t, "as of before", read(t, eu, posix.Root, "global")); return nil })
	for r := range w.roots {
		quick(t, local(r, "made in the cut"))
		require.Equal(t, string(r), read(t, w.clients[r], w.roots[r], "local"))
	}
	quick(t, func() error { write(t, us, posix.Root, "of the majority", "new"); return nil })
	missing(t, eu, client.Name{Dir: posix.Root, Name: "of the majority"})
	quick(t, func() error { return w.rename(west, at(west, "made at once"), at(east, "moved in the cut")) })

	var far sync.WaitGroup
	for what, do := range map[string]func() error{
		"update of the global partition in the minority": func() error {
			_, err := eu.Mkdir(ctx, posix.Cred{}, client.Name{Dir: posix.Root, Name: "minority"}, 0o755)
			return err
		},
		"rename into the region":         func() error { return w.rename(west, at(west, "local"), at(ireland, "from the west")) },
		"rename out of it, there":        func() error { return w.rename(ireland, at(ireland, "local"), at(west, "from Ireland")) },
		"rename out of it, from outside": func() error { return w.rename(east, at(ireland, "local"), at(east, "from Ireland")) },
		"removal of a file there":        func() error { return us.Unlink(ctx, posix.Cred{}, client.Name{Dir: sends.Ino, Name: "before"}) },
		"reading in the region":          func() error { _, err := us.Lookup(ctx, w.roots[ireland], "local"); return err },
	} {
		far.Go(func() {
			begin := time.Now()
			assert.ErrorIs(t, do(), posix.ETIMEDOUT, what)
			assert.LessOrEqual(t, time.Since(begin), cutTimeout+prompt, what)
		})
	}
	for r := range w.roots {
		quick(t, local(r, "made meanwhile"))
	}
	// The directory's partition has numbers of the region, names the file and answers.
	quick(t, func() error {
		_, err := us.Create(ctx, posix.Cred{}, client.Name{Dir: sends.Ino, Name: "in the cut"}, 0o644, 0)
		return err
	})
	far.Wait()

	require.NoError(t, w.Cut())
	quick(t, func() error { return w.rename(west, at(west, "made in the cut"), at(ireland, "moved at once")) })
	quick(t, func() error { write(t, eu, posix.Root, "of Ireland", "new"); return nil })
	require.Equal(t, "new", read(t, eu, posix.Root, "of the majority"))
	for r, root := range w.roots {
		require.Equal(t, string(r), read(t, us, root, "local"))
	}
	missing(t, us, at(ireland, "from the west"))
	missing(t, us, at(west, "from Ireland"))
	missing(t, us, at(east, "from Ireland"))
	require.Empty(t, read(t, eu, sends.Ino, "in the cut"), "it is made in the region after the cut")
	require.Equal(t, "of a file in Ireland", read(t, us, sends.Ino, "before"))
	require.Eventually(t, func() bool {
		age, err := eu.Stale(ctx, posix.Root)
		return err == nil && age < time.Second
	}, 30*time.Second, 50*time.Millisecond, "reads are new again")
}

// A command between partitions that is in progress when the network is cut delays only operations on its own
// inodes, and completes when the cut ends.
func TestCutUnderWay(t *testing.T) {
	cfg := cutConfig(t)
	cfg.Timeout = time.Minute
	w := startWorld(t, cfg)
	ctx := t.Context()
	for r, root := range w.roots {
		write(t, w.clients[r], root, "mine", string(r))
		write(t, w.clients[r], root, "other", string(r))
	}
	from, to := client.Name{Dir: w.roots[west], Name: "mine"}, client.Name{Dir: w.roots[ireland], Name: "theirs"}
	require.NoError(t, w.rename(west, client.Name{Dir: from.Dir, Name: "other"}, client.Name{Dir: to.Dir, Name: "warm"}))
	done := make(chan error, 1)
	require.NoError(t, w.Cut(ireland)) // the regions still consider each other reachable
	go func() { done <- w.rename(west, from, to) }()
	for i, r := range []topology.Region{west, east, ireland, west, east, ireland} {
		quick(t, func() error {
			_, err := w.clients[r].Mkdir(ctx, posix.Cred{}, client.Name{Dir: w.roots[r], Name: string(rune('a' + i))}, 0o755)
			return err
		})
	}
	quick(t, func() error {
		require.Equal(t, string(west), read(t, w.clients[west], from.Dir, from.Name))
		return nil
	})
	select {
	case err := <-done:
		require.Fail(t, "renamed into a region that is cut off", "%v", err)
	default:
	}
	require.NoError(t, w.Cut())
	quick(t, func() error { return <-done })
	missing(t, w.clients[west], from)
	require.Equal(t, string(west), read(t, w.clients[west], to.Dir, to.Name))
}
