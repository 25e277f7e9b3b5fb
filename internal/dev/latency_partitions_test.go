package dev

import (
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/client"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/topology"
)

// between measures commands over the partitions of west and east.
type between struct {
	*world
	t    *testing.T
	made int
}

// file makes a file in a region's partition, and looks it up from another region, as a kernel does before a
// rename.
func (b *between) file(in, from topology.Region) (client.Name, posix.Ino) {
	b.made++
	at := client.Name{Dir: b.roots[in], Name: fmt.Sprint("file ", b.made)}
	write(b.t, b.clients[in], at.Dir, at.Name, "")
	b.clients[from].Observe(b.clients[in].Proofs())
	a, err := b.clients[from].Lookup(b.t.Context(), at.Dir, at.Name)
	require.NoError(b.t, err)
	return at, a.Ino
}

// free returns an unused name in a region's partition, after a lookup of the name.
func (b *between) free(in, from topology.Region) client.Name {
	b.made++
	at := client.Name{Dir: b.roots[in], Name: fmt.Sprint("name ", b.made)}
	missing(b.t, b.clients[from], at)
	return at
}

// rename returns the time of a rename from one region to the other by a client in a region.
func (b *between) rename(by, from, to topology.Region) time.Duration {
	source, _ := b.file(from, by)
	target := b.free(to, by)
	began := time.Now()
	require.NoError(b.t, b.clients[by].Rename(b.t.Context(), posix.Cred{}, source, target, 0))
	return time.Since(began)
}

// link returns the time of a link of a file in one region from a directory in the other by a client in a
// region.
func (b *between) link(by, of, in topology.Region) time.Duration {
	_, ino := b.file(of, by)
	target := b.free(in, by)
	began := time.Now()
	_, err := b.clients[by].Link(b.t.Context(), posix.Cred{}, ino, target)
	require.NoError(b.t, err)
	return time.Since(began)
}

// inMemory returns a directory in memory if there is one: four entries of a command are synced one after the
// other, and the test does not measure the time of the disk.
func inMemory(t *testing.T) string {
	dir, err := os.MkdirTemp("/dev/shm", "globalfs-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	return dir
}

// TestLatencyBetweenRegions: a command with names that the kernel has looked up is sent at once to the
// nearest of the two partitions. From one of their regions it takes one round trip between the two regions,
// from a third region less than two round trips to the farther one.
func TestLatencyBetweenRegions(t *testing.T) {
	if testing.Short() {
		t.Skip("by design: the race detector takes a part of a round trip: `make unit` runs it without")
	}
	cfg := cutConfig(t)
	cfg.Dir = inMemory(t)
	b := &between{world: startWorld(t, cfg), t: t}
	round := func(x, y topology.Region) time.Duration { return 2 * topology.Delay(x, y) }
	for _, c := range []struct {
		by    topology.Region
		bound time.Duration
	}{
		{west, round(west, east) * 11 / 10},
		{east, round(west, east) * 11 / 10},
		{ireland, 2 * max(round(ireland, west), round(ireland, east))},
	} {
		for name, once := range map[string]func() time.Duration{
			"rename west to east": func() time.Duration { return b.rename(c.by, west, east) },
			"rename east to west": func() time.Duration { return b.rename(c.by, east, west) },
			"link of the west":    func() time.Duration { return b.link(c.by, west, east) },
			"link of the east":    func() time.Duration { return b.link(c.by, east, west) },
		} {
			var took []time.Duration
			for range 6 { // the first one opens sessions, and the partitions have not exchanged messages for a while
				took = append(took, once())
			}
			t.Logf("%s by %s: %v", name, c.by, took)
			require.LessOrEqual(t, slices.Min(took), c.bound, "%s by %s", name, c.by) // a busy machine makes some slower
		}
	}
}
