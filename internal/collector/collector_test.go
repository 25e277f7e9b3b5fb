package collector_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/block"
	"github.com/globalfs/globalfs/internal/block/blocktest"
	"github.com/globalfs/globalfs/internal/collector"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/metrics"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/topology"
	"github.com/globalfs/globalfs/test/bubble"
)

// world is a collector's view of a cluster of two regions: partition 0 is in both, partition 1 in the first.
type world struct {
	region *blocktest.Memory
	other  *blocktest.Memory

	mu      sync.Mutex
	dropped map[uint16][]meta.Dropped // GUARDED_BY mu
	needed  map[block.ID]bool         // GUARDED_BY mu
	silent  map[uint16]bool           // GUARDED_BY mu; partitions that do not answer
	places  uint64                    // GUARDED_BY mu
}

func newWorld() *world {
	return &world{
		region: blocktest.NewMemory(1 << 30), other: blocktest.NewMemory(1 << 30),
		dropped: map[uint16][]meta.Dropped{}, needed: map[block.ID]bool{}, silent: map[uint16]bool{},
	}
}

var errSilent = errors.New("no majority answers")

func (w *world) Cluster() *topology.Cluster {
	return &topology.Cluster{Partitions: []topology.Partition{
		{ID: 0, Path: "/", Replicas: []topology.Replica{{Region: "eu"}, {Region: "us"}, {Region: "eu"}}},
		{ID: 1, Path: "/eu", Replicas: []topology.Replica{{Region: "eu"}}},
	}}
}

func (w *world) DroppedBlocks(_ context.Context, partition uint16, after uint64, before time.Time) (page []meta.Dropped, u meta.BlockUsage, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.silent[partition] {
		return nil, u, errSilent
	}
	u.Dropped = uint64(len(w.dropped[partition]))
	for id := range w.needed {
		if id.Partition() == partition {
			u.Blocks++
		}
	}
	for _, d := range w.dropped[partition] {
		if d.Place > after && d.Time < posix.Time(before.UnixNano()) && len(page) < meta.MaxIDs {
			page = append(page, d)
		}
	}
	return page, u, nil
}

func (w *world) Collected(_ context.Context, partition uint16, ids []block.ID) (uint64, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.silent[partition] {
		return 0, errSilent
	}
	gone := map[block.ID]bool{}
	for _, id := range ids {
		gone[id] = true
	}
	var left []meta.Dropped
	for _, d := range w.dropped[partition] {
		if !gone[d.ID] {
			left = append(left, d)
		}
	}
	removed := len(w.dropped[partition]) - len(left)
	w.dropped[partition] = left
	return uint64(removed), nil
}

func (w *world) Garbage(_ context.Context, partition uint16, ids []block.ID) ([]bool, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.silent[partition] || partition > 1 {
		return nil, errSilent
	}
	garbage := make([]bool, len(ids))
	for i, id := range ids {
		queued := false
		for _, d := range w.dropped[partition] {
			queued = queued || d.ID == id
		}
		garbage[i] = !w.needed[id] && !queued
	}
	return garbage, nil
}

func (w *world) BlockStore(uint16) (block.Store, error) { return w.region, nil }

// put stores a block of a partition.
func (w *world) put(t *testing.T, partition uint16, counter uint64) block.ID {
	id := posix.MakeBlockID(partition, 7, counter)
	require.NoError(t, w.region.Put(t.Context(), block.New(id, make([]byte, 100))))
	return id
}

func (w *world) need(id block.ID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.needed[id] = true
}

// drop puts a block into the queue of its partition now.
func (w *world) drop(id block.ID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.needed, id)
	w.places++
	at := id.Partition()
	w.dropped[at] = append(w.dropped[at], meta.Dropped{Place: w.places, ID: id, Time: posix.Time(time.Now().UnixNano()), Length: 100})
}

func (w *world) silence(partition uint16, silent bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.silent[partition] = silent
}

func (w *world) has(t *testing.T, id block.ID) bool {
	_, err := w.region.Get(t.Context(), id, nil)
	if !errors.Is(err, block.ErrNotFound) {
		require.NoError(t, err)
	}
	return err == nil
}

func (w *world) collector(t *testing.T) *collector.Collector {
	c, err := collector.New(collector.Config{
		Metadata: w, Regions: []collector.Region{{Name: "eu", Store: w.region}, {Name: "us", Store: w.other}},
		Sweeps: func(r topology.Region) bool { return r == "eu" },
	})
	require.NoError(t, err)
	return c
}

func TestDroppedBlocksWaitForTheGrace(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld()
		kept, early, late := w.put(t, 0, 1), w.put(t, 0, 2), w.put(t, 1, 3)
		w.need(kept)
		w.drop(early)
		time.Sleep(6 * time.Minute)
		w.drop(late)
		time.Sleep(6 * time.Minute)

		c := w.collector(t)
		r, err := c.Once(t.Context(), c.Grace(), true)
		require.NoError(t, err)
		require.True(t, r.Complete())
		require.Equal(t, collector.Amount{Blocks: 1, Bytes: 100}, r.Partitions[0].Due)
		require.Zero(t, r.Partitions[1].Due)
		require.EqualValues(t, 1, r.Partitions[1].Dropped.Blocks)
		require.EqualValues(t, 1, r.Partitions[0].Live.Blocks)
		require.EqualValues(t, 3, r.Regions[0].Seen)
		require.True(t, w.has(t, early), "a dry run deletes nothing")

		r, err = c.Once(t.Context(), c.Grace(), false)
		require.NoError(t, err)
		require.Equal(t, collector.Amount{Blocks: 1, Bytes: 100}, r.Partitions[0].Collected)
		require.Zero(t, r.Partitions[1].Collected)
		require.True(t, w.has(t, kept))
		require.False(t, w.has(t, early))
		require.True(t, w.has(t, late))
		r, err = c.Once(t.Context(), 0, false)
		require.NoError(t, err)
		require.EqualValues(t, 1, r.Partitions[1].Collected.Blocks)
		require.False(t, w.has(t, late))
	})
}

// A server that was away has a copy of a collected block when it is back: an orphan.
func TestWhatADeletionMissesIsSwept(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld()
		id := w.put(t, 0, 1)
		w.drop(id)
		time.Sleep(time.Second)
		w.region.Fail(block.ErrUnavailable)
		c := w.collector(t)
		r, err := c.Once(t.Context(), 0, false)
		require.NoError(t, err)
		require.EqualValues(t, 1, r.Partitions[0].Collected.Blocks)
		require.False(t, r.Complete(), "the region could not be swept")
		require.Contains(t, r.Regions[0].Error, "too few storage servers")
		w.region.Fail(nil)
		require.True(t, w.has(t, id))
		r, err = c.Once(t.Context(), 0, false)
		require.NoError(t, err)
		require.Equal(t, collector.Swept{Region: "eu", Seen: 1, Orphans: collector.Amount{Blocks: 1, Bytes: 100}, Deleted: true}, r.Regions[0])
		require.False(t, w.has(t, id))
	})
}

// A failed deletion is repeated: the partition does not forget the block.
func TestFailedDeletionIsRepeated(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld()
		id := w.put(t, 0, 1)
		w.drop(id)
		time.Sleep(time.Second)
		w.region.Fail(errors.New("the disk says no"))
		c := w.collector(t)
		r, err := c.Once(t.Context(), 0, false)
		require.NoError(t, err)
		require.Contains(t, r.Partitions[0].Error, "the disk says no")
		require.Zero(t, r.Partitions[0].Collected)
		w.region.Fail(nil)
		r, err = c.Once(t.Context(), 0, false)
		require.NoError(t, err)
		require.True(t, r.Complete())
		require.EqualValues(t, 1, r.Partitions[0].Collected.Blocks)
	})
}

// Blocks of a partition that does not answer, or does not exist, stay.
func TestSweepLeavesWhatItCannotAskFor(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld()
		var orphans, others []block.ID
		for n := range uint64(2*meta.MaxIDs + 3) {
			orphans = append(orphans, w.put(t, 0, n))
		}
		others = append(others, w.put(t, 1, 1), w.put(t, 1, 2), w.put(t, 40000, 1))
		needed := w.put(t, 0, 1<<40)
		w.need(needed)
		w.silence(1, true)
		c := w.collector(t)
		r, err := c.Once(t.Context(), 0, false)
		require.NoError(t, err)
		require.False(t, r.Complete())
		require.EqualValues(t, len(orphans), r.Regions[0].Orphans.Blocks)
		require.EqualValues(t, 3, r.Regions[0].Unasked)
		require.EqualValues(t, len(orphans)+4, r.Regions[0].Seen)
		for _, id := range append(others, needed) {
			require.True(t, w.has(t, id))
		}
		require.False(t, w.has(t, orphans[0]))
		require.False(t, w.has(t, orphans[len(orphans)-1]))
	})
}

// Blocks that a region has missed while it was away are copied to it; blocks that it does not need are not.
func TestBring(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld()
		both, missed, local, orphan := w.put(t, 0, 1), w.put(t, 0, 2), w.put(t, 1, 3), w.put(t, 0, 4)
		for _, id := range []block.ID{both, missed, local} {
			w.need(id)
		}
		require.NoError(t, w.other.Put(t.Context(), block.New(both, make([]byte, 100))))
		c := w.collector(t)
		r, err := c.Once(t.Context(), 0, true)
		require.NoError(t, err)
		require.Equal(t, collector.Amount{Blocks: 1, Bytes: 100}, r.Regions[0].Brought)
		sizes := func() []uint32 {
			sizes, err := w.other.Sizes(t.Context(), []block.ID{both, missed, local, orphan})
			require.NoError(t, err)
			return sizes
		}
		require.Equal(t, []uint32{100, 0, 0, 0}, sizes())

		w.other.Fail(block.ErrUnavailable)
		r, err = c.Once(t.Context(), 0, false)
		require.NoError(t, err)
		require.Contains(t, r.Regions[0].Error, "region us has missed")
		w.other.Fail(nil)
		r, err = c.Once(t.Context(), 0, false)
		require.NoError(t, err)
		require.True(t, r.Complete())
		require.Equal(t, collector.Amount{Blocks: 1, Bytes: 100}, r.Regions[0].Brought)
		require.Equal(t, []uint32{100, 100, 0, 0}, sizes())
		r, err = c.Once(t.Context(), 0, false)
		require.NoError(t, err)
		require.Zero(t, r.Regions[0].Brought)
	})
}

func TestRun(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld()
		c := w.collector(t)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			c.Run(ctx)
		}()
		dropped, orphan, needed := w.put(t, 0, 1), w.put(t, 1, 2), w.put(t, 1, 3)
		w.need(needed)
		w.drop(dropped)
		time.Sleep(collector.DefaultGrace - time.Minute)
		require.True(t, w.has(t, dropped))
		time.Sleep(2 * time.Minute)
		require.False(t, w.has(t, dropped))
		require.True(t, w.has(t, orphan))
		time.Sleep(collector.DefaultSweep)
		require.False(t, w.has(t, orphan))
		require.True(t, w.has(t, needed))

		var set metrics.Set
		set.Add(c.Metrics)
		scraped := httptest.NewRecorder()
		set.Handler().ServeHTTP(scraped, httptest.NewRequest(http.MethodGet, "/metrics", nil))
		for _, line := range []string{
			`globalfs_gc_collected_blocks_total{partition="0"} 1`, `globalfs_gc_collected_bytes_total{partition="0"} 100`, `globalfs_gc_swept_blocks_total{region="eu"} 1`,
			`globalfs_data_live_blocks{partition="0"} 0`, `globalfs_data_live_blocks{partition="1"} 1`,
			`globalfs_data_dropped_blocks{partition="0"} 0`, `globalfs_data_dropped_blocks{partition="1"} 0`,
		} {
			require.Contains(t, scraped.Body.String(), line+"\n")
		}
		require.NotContains(t, scraped.Body.String(), `globalfs_gc_collected_blocks_total{partition="1"}`)
		stop()
		<-ended
	})
}

func TestConfig(t *testing.T) {
	for want, cfg := range map[string]collector.Config{
		"Metadata": {},
		"interval": {Metadata: newWorld(), Interval: -1},
		"no store": {Metadata: newWorld(), Regions: []collector.Region{{Name: "eu"}}},
	} {
		_, err := collector.New(cfg)
		require.ErrorContains(t, err, want)
	}
}
