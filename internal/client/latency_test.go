package client_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/client"
	"github.com/globalfs/globalfs/internal/client/clienttest"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/topology"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// distant is a client.Caller for a client in a region, with the round trips between regions.
type distant struct {
	*clienttest.Network
	from    topology.Region
	regions map[multicast.ProcessID]topology.Region
}

func (d *distant) Call(ctx context.Context, to multicast.ProcessID, request []byte) ([]byte, error) {
	trip := topology.Delay(d.from, d.regions[to])
	time.Sleep(trip) // fake time
	answer, err := d.Network.Call(ctx, to, request)
	time.Sleep(trip)
	return answer, err
}

func newDistant(n *clienttest.Network, from topology.Region) *distant {
	d := &distant{n, from, map[multicast.ProcessID]topology.Region{}}
	for _, p := range n.Plan.Partitions {
		for _, r := range p.Replicas {
			d.regions[r.Process] = r.Region
		}
	}
	return d
}

// distantClient returns a client in a region of a wide-area network.
func distantClient(t *testing.T, n *clienttest.Network, region topology.Region) *client.Client {
	cfg := n.Config(region)
	cfg.Caller = newDistant(n, region)
	c, err := client.New(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

// round is the round trip between the west and the east.
var round = 2 * topology.Delay(west, east)

// For names that it has met before, a client sends a rename at once, to the nearest party. It goes once to
// the far partition, for the rule.
func TestRenameBetweenRegionsIsOneTrip(t *testing.T) {
	inBubble(t, func(t *testing.T, n *clienttest.Network) {
		for by, here := range map[topology.Region]uint16{west: 1, east: 2} {
			c, there := distantClient(t, n, by), 3-here
			far := n.Processes(there, by)
			for _, way := range [][2]uint16{{here, there}, {there, here}} {
				from, to := at(local(n, way[0]), "f "+string(by)), at(local(n, way[1]), "g "+string(by))
				f := create(t, c, from.Dir, from.Name).Ino
				require.Zero(t, lookup(t, c, to.Dir, to.Name))
				began, before := time.Now(), n.Calls(far...)
				rename(t, c, from, to)
				require.LessOrEqual(t, time.Since(began), round)
				require.LessOrEqual(t, n.Calls(far...)-before, 1, "the rule of the new directory")
				require.EqualValues(t, way[1], where(t, c, f))
			}
		}
		n.Check(t)
	})
}

// A client that renames a file to and fro remembers the results of its own renames, and needs no lookup.
func TestARenameIsRemembered(t *testing.T) {
	inBubble(t, func(t *testing.T, n *clienttest.Network) {
		c := n.Client(t, west)
		a, b := at(local(n, 1), "a"), at(local(n, 2), "b")
		f := create(t, c, a.Dir, a.Name).Ino
		rename(t, c, a, b)
		for range 4 {
			a, b = b, a
			before := n.Calls(n.Processes(1, west)...) + n.Calls(n.Processes(2, west)...)
			rename(t, c, a, b)
			calls := n.Calls(n.Processes(1, west)...) + n.Calls(n.Processes(2, west)...) - before
			require.LessOrEqual(t, calls, 2, "the rename, and the rule of the new directory")
			require.Equal(t, f, lookup(t, c, b.Dir, b.Name))
			require.Zero(t, lookup(t, c, a.Dir, a.Name))
		}
		n.Check(t)
	})
}

// Before a rename, a client looks up unknown names and queries the rule concurrently.
func TestLooksBeforeARenameAreOneTrip(t *testing.T) {
	inBubble(t, func(t *testing.T, n *clienttest.Network) {
		c, other := distantClient(t, n, west), n.Client(t, west)
		f := create(t, other, local(n, 1), "f").Ino
		require.NoError(t, c.OpenPartition(t.Context(), 1))
		c.Observe(other.Proofs())
		began := time.Now()
		rename(t, c, at(local(n, 1), "f"), at(local(n, 2), "g"))
		require.LessOrEqual(t, time.Since(began), round)
		require.Equal(t, f, lookup(t, c, local(n, 2), "g"))
		n.Check(t)
	})
}

// Links and unlinks are sent to the nearest party, whichever has the directory.
func TestTheNearestPartyIsAsked(t *testing.T) {
	inBubble(t, func(t *testing.T, n *clienttest.Network) {
		c, ctx := distantClient(t, n, west), t.Context()
		f := create(t, c, local(n, 1), "f").Ino
		far := create(t, c, local(n, 2), "g").Ino
		for _, ino := range []posix.Ino{f, far} {
			for _, dir := range []uint16{1, 2} {
				name := at(local(n, dir), fmt.Sprint(ino))
				began := time.Now()
				_, err := c.Link(ctx, root, ino, name)
				require.NoError(t, err)
				if ino.Partition() != dir {
					require.Zero(t, time.Since(began), "the near partition is asked")
				}
				began = time.Now()
				require.NoError(t, c.Unlink(ctx, root, name))
				if ino.Partition() != dir {
					require.Zero(t, time.Since(began), "the near partition is asked")
				}
			}
		}
		n.Check(t)
	})
}

// A client with outdated memory is refused, looks again, and renames the current inode.
func TestRenameByWrongMemory(t *testing.T) {
	inBubble(t, func(t *testing.T, n *clienttest.Network) {
		c, other, ctx := n.Client(t, west), n.Client(t, east), t.Context()
		west, east := local(n, 1), local(n, 2)
		for name, change := range map[string]func(){
			"source replaced": func() { create(t, other, west, "new"); rename(t, other, at(west, "new"), at(west, "f")) },
			"target made":     func() { create(t, other, east, "g") },
			"target removed":  func() { require.NoError(t, other.Unlink(ctx, root, at(east, "g"))) },
			"target replaced": func() { create(t, other, east, "new"); rename(t, other, at(east, "new"), at(east, "g")) },
			"source moved":    func() { _, err := other.Move(ctx, lookup(t, other, west, "f"), 3); require.NoError(t, err) },
			"another name": func() {
				_, err := other.Link(ctx, root, lookup(t, other, west, "f"), at(posix.Root, "second"))
				require.NoError(t, err)
			},
		} {
			t.Log(name)
			f := create(t, c, west, "f").Ino
			if name == "target removed" || name == "target replaced" {
				create(t, c, east, "g")
			}
			lookup(t, c, west, "f")
			lookup(t, c, east, "g")
			other.Observe(c.Proofs())
			change()
			now := lookup(t, other, west, "f")
			rename(t, c, at(west, "f"), at(east, "g"))
			require.Zero(t, lookup(t, c, west, "f"))
			require.Equal(t, now, lookup(t, c, east, "g"))
			require.Equal(t, name != "source replaced", now == f)
			_ = other.Unlink(ctx, root, at(posix.Root, "second"))
			require.NoError(t, c.Unlink(ctx, root, at(east, "g")))
		}
		lookup(t, c, west, "f")
		require.Equal(t, posix.ENOENT, c.Rename(ctx, root, at(west, "f"), at(east, "g"), 0))
		n.Check(t)
	})
}

// A file goes where the rule of its new directory sends it, also if the client learns of the rule only
// meanwhile.
func TestRenameObeysARuleThatIsNew(t *testing.T) {
	inBubble(t, func(t *testing.T, n *clienttest.Network) {
		c, other, ctx := n.Client(t, west), n.Client(t, east), t.Context()
		d := mkdir(t, other, local(n, 2), "d")
		c.Observe(other.Proofs())
		for i, placed := range []client.Placement{{Region: ireland}, {Spread: []topology.Region{west}}, {}} {
			from, to := at(local(n, 1), "f"), at(d, "g")
			f := create(t, c, from.Dir, from.Name).Ino
			require.Zero(t, lookup(t, c, to.Dir, to.Name))
			require.NoError(t, other.Place(ctx, root, d, placed))
			c.Observe(other.Proofs())
			rename(t, c, from, to)
			require.Equal(t, []uint16{3, 1, 2}[i], where(t, c, f))
			require.NoError(t, c.Unlink(ctx, root, to))
		}
		n.Check(t)
	})
}

// A rename also moves a file that has lost its other name since the client saw it: the file has only the
// renamed name.
func TestRenameOfAFileThatHasLostANameMoves(t *testing.T) {
	inBubble(t, func(t *testing.T, n *clienttest.Network) {
		c, other, ctx := n.Client(t, west), n.Client(t, east), t.Context()
		f := create(t, c, local(n, 1), "f").Ino
		_, err := c.Link(ctx, root, f, at(local(n, 1), "second"))
		require.NoError(t, err)
		lookup(t, c, local(n, 1), "f")
		require.Zero(t, lookup(t, c, local(n, 2), "g"))
		other.Observe(c.Proofs())
		require.NoError(t, other.Unlink(ctx, root, at(local(n, 1), "second")))
		rename(t, c, at(local(n, 1), "f"), at(local(n, 2), "g"))
		require.EqualValues(t, 2, where(t, c, f))
		n.Check(t)
	})
}

// A client also renames directories by memory if it has met their names: no loop arises, and the contents
// follow the rule.
func TestRenameOfDirectoriesByMemory(t *testing.T) {
	inBubble(t, func(t *testing.T, n *clienttest.Network) {
		c, ctx := n.Client(t, west), t.Context()
		a := mkdir(t, c, local(n, 1), "a")
		b := mkdir(t, c, local(n, 2), "b")
		require.NoError(t, c.Place(ctx, root, b, client.Placement{Region: ireland}))
		met := func(names ...client.Name) {
			for _, name := range names {
				lookup(t, c, name.Dir, name.Name)
			}
		}
		met(at(local(n, 1), "a"), at(b, "a"))
		rename(t, c, at(local(n, 1), "a"), at(b, "a"))
		tasks, err := c.Tasks(ctx)
		require.NoError(t, err)
		require.Equal(t, []client.PartitionTask{{Partition: 1, Task: meta.Task{Dir: a, Target: 3}}}, tasks)
		met(at(local(n, 2), "b"), at(a, "b"))
		require.Equal(t, posix.EINVAL, c.Rename(ctx, root, at(local(n, 2), "b"), at(a, "b"), 0))
		d := mkdir(t, c, posix.Root, "d")
		met(at(posix.Root, "d"), at(b, "a"))
		require.NoError(t, c.Rename(ctx, root, at(posix.Root, "d"), at(b, "a"), meta.RenameExchange))
		require.Equal(t, []posix.Ino{a, d}, []posix.Ino{lookup(t, c, posix.Root, "d"), lookup(t, c, b, "a")})
		inside := mkdir(t, c, d, "inside")
		met(at(local(n, 2), "b"), at(inside, "x"))
		require.Equal(t, posix.EINVAL, c.Rename(ctx, root, at(local(n, 2), "b"), at(inside, "x"), 0))
		n.Check(t)
	})
}
