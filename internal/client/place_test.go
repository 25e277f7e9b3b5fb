package client_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/client"
	"github.com/globalfs/globalfs/internal/client/clienttest"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/topology"
)

const ireland = topology.Region("eu-west-1")

// A new inode in a directory goes to the place of the directory's rule, for clients with and without
// knowledge of the rule.
func TestPlacement(t *testing.T) {
	inBubble(t, func(t *testing.T, n *clienttest.Network) {
		c, other, ctx := n.Client(t, west), n.Client(t, east), t.Context()
		d := mkdir(t, c, posix.Root, "projects")
		require.NoError(t, c.Place(ctx, root, d, client.Placement{Region: ireland}))
		require.EqualValues(t, 3, create(t, c, d, "a").Ino.Partition())
		require.EqualValues(t, 3, create(t, other, d, "b").Ino.Partition())
		sub := mkdir(t, c, d, "sub")
		require.EqualValues(t, 3, sub.Partition())
		require.EqualValues(t, 3, create(t, other, sub, "c").Ino.Partition(), "it is made where its directory is")
		_, err := c.Symlink(ctx, root, at(d, "s"), "a")
		require.NoError(t, err)
		_, err = other.Create(ctx, root, at(d, "a"), 0o644, meta.Exclusive)
		require.Equal(t, posix.EEXIST, err)
		_, err = other.Mkdir(ctx, root, at(d, "a"), 0o755)
		require.Equal(t, posix.EEXIST, err)

		placements, err := c.Placements(ctx)
		require.NoError(t, err)
		rule := meta.Rule{Spread: []uint16{3}, Region: string(ireland)}
		require.Equal(t, []meta.Placement{{Dir: d, Target: 3, Rule: rule}}, placements)
		l, err := c.Locate(ctx, d)
		require.NoError(t, err)
		require.Equal(t, rule, l.Rule)
		require.Equal(t, "made here", l.Why)
		l, err = c.Locate(ctx, sub)
		require.NoError(t, err)
		require.Equal(t, fmt.Sprintf("its directory was placed in eu-west-1 (rule of inode %d)", d), l.Why)
		require.Equal(t, ireland, l.Region)
		require.Equal(t, n.Processes(3, ireland)[0], l.Leader)
		require.Len(t, l.Replicas, 3)

		// A file that is renamed into it goes there too; without a placement all goes to the directory's
		// partition.
		f := create(t, c, local(n, 1), "f").Ino
		rename(t, c, at(local(n, 1), "f"), at(d, "f"))
		require.EqualValues(t, 3, where(t, c, f))
		require.NoError(t, other.Place(ctx, root, d, client.Placement{}))
		require.EqualValues(t, 0, create(t, c, d, "d").Ino.Partition(), "a client that still knows the old rule looks again")
		placements, err = other.Placements(ctx)
		require.NoError(t, err)
		require.Empty(t, placements)
		n.Check(t)
	})
}

func TestPlacementSpreads(t *testing.T) {
	inBubble(t, func(t *testing.T, n *clienttest.Network) {
		c, ctx := n.Client(t, west), t.Context()
		d := mkdir(t, c, local(n, 1), "d")
		require.NoError(t, c.Place(ctx, root, d, client.Placement{Spread: []topology.Region{west, ireland, client.Global}}))
		count := map[uint16]int{}
		for i := range 60 {
			f := create(t, c, d, fmt.Sprint("file ", i)).Ino
			count[f.Partition()]++
			c.Release(f)
		}
		require.Len(t, count, 3)
		for _, p := range []uint16{0, 1, 3} {
			require.Greater(t, count[p], 5)
		}
		for i := range 60 {
			require.NoError(t, c.Unlink(ctx, root, at(d, fmt.Sprint("file ", i))))
		}
		require.NoError(t, c.Rmdir(ctx, root, at(local(n, 1), "d")))
		n.Check(t)
	})
}

// An open that may make a file opens an existing file, in any partition.
func TestCreateOfWhatIsElsewhere(t *testing.T) {
	inBubble(t, func(t *testing.T, n *clienttest.Network) {
		c, other, ctx := n.Client(t, west), n.Client(t, east), t.Context()
		d := mkdir(t, c, posix.Root, "d")
		require.NoError(t, c.Place(ctx, root, d, client.Placement{Region: ireland}))
		f := create(t, c, d, "f").Ino
		write(t, c, f, 0, []byte("content"))
		again, err := other.Create(ctx, root, at(d, "f"), 0o600, 0)
		require.NoError(t, err)
		require.Equal(t, f, again.Ino)
		require.EqualValues(t, 7, again.Size)
		again, err = other.Create(ctx, root, at(d, "f"), 0o600, meta.Truncate)
		require.NoError(t, err)
		require.Zero(t, again.Size)
		mkdir(t, c, d, "sub")
		_, err = other.Create(ctx, root, at(d, "sub"), 0o600, 0)
		require.Equal(t, posix.EISDIR, err)
		n.Check(t)
	})
}

// An inode that is made in a partition without a session of this client is held open there too.
func TestCreateElsewhereIsHeld(t *testing.T) {
	inBubble(t, func(t *testing.T, n *clienttest.Network) {
		c, other, ctx := n.Client(t, west), n.Client(t, east), t.Context()
		d := mkdir(t, other, posix.Root, "d")
		require.NoError(t, other.Place(ctx, root, d, client.Placement{Region: ireland}))
		require.NoError(t, other.OpenPartition(ctx, 3))
		f := create(t, c, d, "f").Ino
		require.NoError(t, other.Unlink(ctx, root, at(d, "f")))
		time.Sleep(client.DefaultRenew / 2) // fake time: no renewal has helped
		require.NoError(t, other.Close())
		_, err := c.GetAttr(ctx, f)
		require.NoError(t, err)
		time.Sleep(3 * lease) // fake time
		_, err = c.GetAttr(ctx, f)
		require.NoError(t, err)
	})
}

func TestPlacementsThatCannotBe(t *testing.T) {
	inBubble(t, func(t *testing.T, n *clienttest.Network) {
		c, ctx := n.Client(t, west), t.Context()
		d, f := mkdir(t, c, posix.Root, "d"), create(t, c, local(n, 1), "f").Ino
		require.Equal(t, posix.EINVAL, c.Place(ctx, root, d, client.Placement{Region: "moon"}))
		require.Equal(t, posix.EINVAL, c.Place(ctx, root, d, client.Placement{Move: true}))
		require.Equal(t, posix.EINVAL, c.Place(ctx, root, d, client.Placement{Spread: []topology.Region{west, west}}))
		require.Equal(t, posix.ENOTDIR, c.Place(ctx, root, f, client.Placement{Region: east}))
		require.Equal(t, posix.ESTALE, c.Place(ctx, root, posix.MakeIno(1, 999), client.Placement{Region: east}))
		_, err := c.Move(ctx, f, 9)
		require.Equal(t, posix.EINVAL, err)
	})
}

func TestTasks(t *testing.T) {
	inBubble(t, func(t *testing.T, n *clienttest.Network) {
		c, ctx := n.Client(t, west), t.Context()
		d := mkdir(t, c, local(n, 1), "d")
		require.NoError(t, c.Place(ctx, root, d, client.Placement{Region: east, Move: true}))
		task := func(partition uint16, moved uint64) client.PartitionTask {
			return client.PartitionTask{Partition: partition, Task: meta.Task{Dir: d, Target: 2, Moved: moved}}
		}
		older := task(1, 0)
		older.Target = 0
		require.Equal(t, posix.ENOENT, c.SetTask(ctx, older, meta.TaskDone), "of another move")
		require.NoError(t, c.SetTask(ctx, task(1, 7), meta.TaskPause))
		tasks, err := c.Tasks(ctx)
		require.NoError(t, err)
		require.Equal(t, []client.PartitionTask{{Partition: 1, Task: meta.Task{Dir: d, Target: 2, Moved: 7, Paused: true}}}, tasks)
		require.NoError(t, c.SetTask(ctx, task(1, 8), meta.TaskDone))
		tasks, err = c.Tasks(ctx)
		require.NoError(t, err)
		require.Empty(t, tasks)
		require.Equal(t, posix.ENOENT, c.SetTask(ctx, task(1, 0), meta.TaskResume))
		require.Equal(t, posix.EINVAL, c.SetTask(ctx, task(9, 0), meta.TaskResume))
	})
}
