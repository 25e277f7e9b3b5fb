package dev

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/globalfs/globalfs/internal/attach"
	"github.com/globalfs/globalfs/internal/client"
	"github.com/globalfs/globalfs/internal/pause"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/topology"
	"github.com/globalfs/globalfs/internal/varint"
	"github.com/globalfs/globalfs/pkg/multicast"
	"github.com/globalfs/globalfs/test/logged"
)

// plant makes a directory with one entry of each kind: files in its own and in other partitions, names of
// files in other partitions, large and small files.
func (w *world) plant(t *testing.T, c *attach.Client, at client.Name) posix.Ino {
	t.Helper()
	ctx := t.Context()
	dir, err := c.Mkdir(ctx, posix.Cred{}, at, 0o755)
	require.NoError(t, err)
	spread, err := c.Mkdir(ctx, posix.Cred{}, client.Name{Dir: dir.Ino, Name: "spread"}, 0o755)
	require.NoError(t, err)
	require.NoError(t, c.Place(ctx, posix.Cred{}, spread.Ino, client.Placement{Spread: []topology.Region{client.Global, west, east, ireland}}))
	for i := range 20 {
		name := fmt.Sprint("f", i)
		write(t, c, dir.Ino, name, strings.Repeat(name, i*i))
		a := write(t, c, spread.Ino, name, strings.Repeat(name, i*10_000))
		_, err := c.Link(ctx, posix.Cred{}, a.Ino, client.Name{Dir: dir.Ino, Name: "link-" + name})
		require.NoError(t, err)
		from, to := client.Name{Dir: dir.Ino, Name: name}, client.Name{Dir: spread.Ino, Name: "moved-" + name}
		if i%3 == 0 {
			require.NoError(t, c.Rename(ctx, posix.Cred{}, from, to, 0))
		}
	}
	return dir.Ino
}

// work updates directories through a client in all ways: in one partition, in two by a spread rule, in two by
// a rename back and forth, by links and by removals.
func (w *world) work(ctx context.Context, c *attach.Client, dirs []posix.Ino, rounds int) error {
	for i := range rounds {
		dir, other := dirs[i%len(dirs)], dirs[(i+1)%len(dirs)]
		a, err := c.Create(ctx, posix.Cred{}, client.Name{Dir: dir, Name: fmt.Sprint("a", i)}, 0o644, 0)
		if err != nil {
			return fmt.Errorf("create %d: %w", i, err)
		}
		c.Release(a.Ino)
		if _, err := c.Write(ctx, posix.Cred{}, client.Write{Ino: a.Ino, Data: bytes.Repeat([]byte("w"), 1000)}); err != nil {
			return fmt.Errorf("write %d: %w", i, err)
		}
		if err := c.Rename(ctx, posix.Cred{}, client.Name{Dir: dir, Name: fmt.Sprint("a", i)}, client.Name{Dir: other, Name: fmt.Sprint("b", i)}, 0); err != nil {
			return fmt.Errorf("rename %d: %w", i, err)
		}
		if _, err := c.Link(ctx, posix.Cred{}, a.Ino, client.Name{Dir: dir, Name: fmt.Sprint("c", i)}); err != nil {
			return fmt.Errorf("link %d: %w", i, err)
		}
		if i%2 == 0 {
			if err := c.Unlink(ctx, posix.Cred{}, client.Name{Dir: other, Name: fmt.Sprint("b", i)}); err != nil {
				return fmt.Errorf("unlink %d: %w", i, err)
			}
		}
	}
	return nil
}

// workAll runs work with the clients of all regions at once. Each uses its own directories in all partitions;
// one of them has a spread rule.
func (w *world) workAll(t *testing.T, name string, rounds int) {
	t.Helper()
	var all errgroup.Group
	for region, c := range w.clients {
		all.Go(func() error {
			var dirs []posix.Ino
			for _, p := range w.Plan.Partitions {
				at := client.Name{Dir: p.Root(), Name: fmt.Sprintf("%s-of-%s", name, region)}
				a, err := c.Mkdir(t.Context(), posix.Cred{}, at, 0o755)
				if err != nil {
					return fmt.Errorf("client in %s: mkdir in %d: %w", region, p.ID, err)
				}
				dirs = append(dirs, a.Ino)
			}
			rule := client.Placement{Spread: []topology.Region{west, east, ireland}}
			if err := c.Place(t.Context(), posix.Cred{}, dirs[0], rule); err != nil {
				return fmt.Errorf("client in %s: place: %w", region, err)
			}
			if err := w.work(t.Context(), c, dirs, rounds); err != nil {
				return fmt.Errorf("client in %s: %w", region, err)
			}
			return nil
		})
	}
	require.NoError(t, all.Wait())
}

// A server starts again without its disk. New replicas take the place of its replicas and take over the
// state, while clients continue. All data is there, on the new replicas too.
func TestDiskGone(t *testing.T) {
	cfg := testConfig(t.TempDir())
	w := openWorld(t, cfg)
	w.plant(t, w.clients[west], client.Name{Dir: posix.Root, Name: "planted"})
	w.plant(t, w.clients[west], client.Name{Dir: w.roots[west], Name: "planted"})
	w.workAll(t, "before", 5)
	want := w.census(t, w.clients[west], posix.Root)
	require.NoError(t, w.close())
	lost := w.Plan.Partitions[0].Replicas[0].Server
	require.NoError(t, os.RemoveAll(filepath.Join(cfg.Dir, lost)))

	w = openWorld(t, cfg)
	require.NotEmpty(t, w.Plan.Replaced)
	w.workAll(t, "after", 20)
	got := w.census(t, w.clients[ireland], posix.Root)
	for name, line := range want {
		if _, root := w.roots[topology.Region(name[1:])]; !root { // the roots have more entries now
			require.Equal(t, line, got[name], name)
		}
	}
	w.stopAlike(t)
}

// A server is down for longer than the others keep the commands that it misses. After its start it takes over
// their state, while updates continue, and then has the same state.
func TestAwayForLong(t *testing.T) {
	var log logged.Text
	cfg := testConfig(t.TempDir())
	cfg.Retain = 16 << 10
	cfg.Logger = log.Logger()
	w := openWorld(t, cfg)
	defer func() {
		if t.Failed() {
			t.Logf("the servers say:\n%s", log.Tail(60))
		}
	}()
	w.workAll(t, "before", 2)
	away := w.Plan.Partitions[2].Replicas[0].Server
	require.Equal(t, away, w.Plan.Partitions[0].Replicas[1].Server)
	w.stopServers(away)
	for n, begin := 0, time.Now(); n == 0 || w.keeps(t, away, "without-0-of-"); n++ {
		require.Less(t, time.Since(begin), 2*time.Minute, "the others forget what the server misses")
		w.workAll(t, fmt.Sprint("without-", n), 50)
	}
	require.NoError(t, w.startServer(t.Context(), away))
	w.workAll(t, "back", 20)
	w.stopAlike(t)
	for _, partition := range []int{0, 2} {
		require.True(t, log.Has(fmt.Sprintf("taken over the state of another\" server=%s partition=%d", away, partition)))
	}
}

// keeps reports whether a replica on another server keeps a message with this text in its orders, in any
// partition with a replica on the server.
func (w *world) keeps(t *testing.T, away, text string) bool {
	caller := w.network.client(west)
	defer func() { require.NoError(t, caller.Close()) }()
	on := func(r topology.Replica) bool { return r.Server == away }
	for _, p := range w.Plan.Partitions {
		for _, r := range p.Replicas {
			if slices.ContainsFunc(p.Replicas, on) && !on(r) && bytes.Contains(orderStates(t, caller, r.Process), []byte(text)) {
				return true
			}
		}
	}
	return false
}

// orderStates fetches the state of a replica, in the same way as a replica that takes it over, and returns
// the part of the orders.
func orderStates(t *testing.T, caller attach.Caller, replica multicast.ProcessID) []byte {
	t.Helper()
	var number, length uint64
	var state []byte
	piece := func() error {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		const transferRequest = 0x80
		answer, err := caller.Call(ctx, replica, varint.AppendUint(varint.AppendUint([]byte{transferRequest}, number), uint64(len(state))))
		if err != nil {
			return err
		}
		r := varint.NewReader(answer)
		number, length = r.Uint64(), r.Uint64()
		state = append(state, r.Rest()...)
		return r.Err()
	}
	for begin := time.Now(); length == 0 || uint64(len(state)) < length; {
		if err := piece(); err != nil || length == 0 { // the replica is busy with an export that it drops soon, or writes this one
			require.Less(t, time.Since(begin), time.Minute, err)
			require.NoError(t, pause.For(t.Context(), 50*time.Millisecond))
		}
	}
	r := varint.NewReader(state)
	states := r.Bytes()
	require.NoError(t, r.Err())
	return states
}
