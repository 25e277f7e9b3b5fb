package fsck_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/internal/fsck"
	"github.com/globalfs/globalfs/internal/kv"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/progress"
	"github.com/globalfs/globalfs/test/bubble"
)

// check checks c in a bubble, where pauses take no time.
func check(t *testing.T, c *cluster, o fsck.Options) (r fsck.Report, err error) {
	bubble.Test(t, func(t *testing.T) {
		o.Partitions = len(c.stores)
		r, err = fsck.Online(t.Context(), c, o)
	})
	return r, err
}

func TestOnlineClean(t *testing.T) {
	r, err := check(t, newCluster(t), fsck.Options{Blocks: fsck.AllBlocks})
	require.NoError(t, err)
	require.True(t, r.Sound(), "%v", r.Problems)
	require.Equal(t, []fsck.Partition{
		{ID: 0, Replicas: 1, Inodes: 3, Entries: 3},
		{ID: 1, Replicas: 1, Inodes: 2, Entries: 1, Blocks: 1, Read: 1},
	}, r.Partitions)
	require.Empty(t, r.Problems)
	require.Empty(t, r.Notes)
}

func TestOnlineFindsDamage(t *testing.T) {
	for name, d := range damages {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t)
			d.does(t, c.stores[d.partition])
			r, err := check(t, c, fsck.Options{})
			require.NoError(t, err)
			require.False(t, r.Sound())
			requireProblem(t, &r, d.where, d.what)
		})
	}
}

func requireProblem(t *testing.T, r *fsck.Report, where, what string) {
	t.Helper()
	for _, p := range r.Problems {
		if p.Where == where {
			require.Contains(t, fmt.Sprint(r.Problems), what)
			return
		}
	}
	require.Fail(t, "not found", "%s in %v", where, r.Problems)
}

// A finding of one look only was a change on its way.
func TestOnlineForgetsWhatGoesBy(t *testing.T) {
	c := newCluster(t)
	looks := 0
	whole := c.stores[0]
	c.scan = func(partition uint16) {
		if partition != 0 {
			return
		}
		looks++
		c.stores[0] = whole
		if looks == 1 {
			c.stores[0] = kv.NewMemory()
			fill(t, 0, c.stores[0])
			remove(keyDirent, "file")(t, c.stores[0])
		}
	}
	r, err := check(t, c, fsck.Options{})
	require.NoError(t, err)
	require.Empty(t, r.Problems)
	require.Equal(t, 2, looks)
}

// The report of a partition that is changed between any two pages notes that.
func TestOnlineSaysThatAllWasMoving(t *testing.T) {
	c := newCluster(t)
	c.moving = true
	r, err := check(t, c, fsck.Options{})
	require.NoError(t, err)
	require.True(t, r.Sound())
	require.Len(t, r.Notes, 2)
	require.Contains(t, r.Notes[1], "partition 1 was changed")
}

// A finding that an undecided command may explain is no error.
func TestOnlineInFlight(t *testing.T) {
	c := newCluster(t)
	damages["far orphan"].does(t, c.stores[1])
	leaveUndecided(t, c.stores[1])
	r, err := check(t, c, fsck.Options{})
	require.NoError(t, err)
	require.True(t, r.Sound())
	require.Len(t, r.Problems, 1)
	require.Contains(t, r.Problems[0].String(), "possibly in flight")
	require.Contains(t, r.Notes[0], "partition 1 waits")
}

func TestOnlineBlocks(t *testing.T) {
	c := newCluster(t)
	c.has = func(posix.BlockID) bool { return false }
	r, err := check(t, c, fsck.Options{Blocks: 1})
	require.NoError(t, err)
	requireProblem(t, &r, "partition 1", "block 00010000000000010000000000000001 of inode 281474976710658: no region has a good copy")
	r, err = check(t, c, fsck.Options{})
	require.NoError(t, err)
	require.True(t, r.Sound(), "blocks were not asked for")
}

func TestOnlineUnreachable(t *testing.T) {
	c := newCluster(t)
	c.fails = posix.ETIMEDOUT
	_, err := check(t, c, fsck.Options{})
	require.ErrorIs(t, err, posix.ETIMEDOUT)
	require.ErrorContains(t, err, "partition 0")
}

// canceling is a cluster, and the end of a context after the first look at it.
type canceling struct {
	*cluster
	cancel func()
}

func (c *canceling) Scan(ctx context.Context, partition uint16, after []byte) ([]meta.Pair, ask.Seen, error) {
	pairs, seen, err := c.cluster.Scan(ctx, partition, after)
	if partition == 1 && len(pairs) == 0 {
		c.cancel()
	}
	return pairs, seen, err
}

// The progress counts the blocks that are looked for.
func TestProgressCountsBlocks(t *testing.T) {
	c := newCluster(t)
	meter := new(progress.Meter)
	_, err := check(t, c, fsck.Options{Blocks: fsck.AllBlocks, Progress: meter})
	require.NoError(t, err)
	s := meter.State()
	require.Equal(t, "blocks", s.Unit)
	require.NotZero(t, s.Total)
	require.Equal(t, s.Total, s.Done)
}

func TestOnlineStopsWithItsContext(t *testing.T) {
	c := newCluster(t)
	damages["empty"].does(t, c.stores[1])
	ctx, cancel := context.WithCancel(t.Context())
	meter := new(progress.Meter)
	_, err := fsck.Online(ctx, &canceling{c, cancel}, fsck.Options{Partitions: 2, Progress: meter})
	require.ErrorIs(t, err, context.Canceled)
	require.Contains(t, meter.State().Doing, "looking again")
}

// A report that is cut keeps the problems that only a fault explains.
func TestCut(t *testing.T) {
	r := fsck.Report{Problems: []fsck.Problem{{What: "a", InFlight: true}, {What: "b"}, {What: "c", InFlight: true}}}
	r.Cut(1)
	require.Equal(t, []fsck.Problem{{What: "b"}}, r.Problems)
	require.Equal(t, 2, r.LeftOut)
	r = fsck.Report{Problems: []fsck.Problem{{InFlight: true}}}
	require.True(t, r.Sound())
	r.Cut(0)
	require.False(t, r.Sound(), "what was cut may be anything")
}
