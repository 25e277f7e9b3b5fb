package disk_test

import (
	"bytes"
	"errors"
	"flag"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/block"
	"github.com/globalfs/globalfs/internal/block/blocktest"
	"github.com/globalfs/globalfs/internal/block/disk"
)

var replaySeed = flag.Uint64("block.history", 0, "replay the random history of this seed")

// history is a store with a model of its content.
type history struct {
	t      *testing.T
	rng    *rand.Rand
	config disk.Config
	store  *disk.Store
	live   map[int]int  // size of each live block, by number
	bad    map[int]bool // the copy is bad
}

// TestRandomHistories puts, puts again, deletes, spoils, compacts, kills and reopens. It compares the content
// of the store, and the reported content, with a model (S6).
func TestRandomHistories(t *testing.T) {
	seeds := []uint64{uint64(time.Now().UnixNano()), 1, 2}
	if *replaySeed != 0 {
		seeds = []uint64{*replaySeed}
	}
	for _, seed := range seeds {
		t.Logf("replay with -block.history=%d", seed)
		config := noSync(t.TempDir())
		config.NoSync = seed%2 == 0
		config.SegmentBytes = block.MaxSize
		config.CompactShare = 0.3
		h := &history{t: t, rng: rand.New(rand.NewPCG(seed, 1)), config: config, live: map[int]int{}, bad: map[int]bool{}}
		h.store = open(t, config)
		for range 400 {
			h.step()
		}
		h.check()
		require.NoError(t, h.store.Close())
	}
}

// size of a block by its number: some small, some large.
func (h *history) size(i int) int { return []int{10, 5000, 30000, 150000}[i%4] + i }

func (h *history) pick() (i int, present bool) {
	i = h.rng.IntN(60)
	_, present = h.live[i]
	return i, present
}

func (h *history) step() {
	t, ctx := h.t, h.t.Context()
	i, present := h.pick()
	id, data := blocktest.Block(i, h.size(i))
	switch h.rng.IntN(20) {
	case 0:
		h.kill()
	case 1:
		require.NoError(t, h.store.Close())
		h.store = open(t, h.config)
	case 2:
		require.NoError(t, h.store.Compact(ctx))
		require.NoError(t, h.store.Audit())
	case 3:
		if present && !h.bad[i] && len(data) > 4096 {
			spoil(t, h.config.Dir, data)
			h.bad[i] = true
		}
	case 4:
		h.check()
	case 5, 6, 7, 8, 9, 10:
		other, _ := h.pick()
		otherID, _ := blocktest.Block(other, h.size(other))
		require.NoError(t, h.store.Delete(ctx, []block.ID{id, otherID}))
		for _, i := range []int{i, other} {
			delete(h.live, i)
			delete(h.bad, i)
		}
	default:
		require.NoError(t, h.store.Put(ctx, block.New(id, data)))
		h.live[i] = len(data)
		delete(h.bad, i)
	}
}

// kill abandons the store and continues with the content of its disk.
func (h *history) kill() {
	dir := snapshot(h.t, h.config.Dir)
	require.NoError(h.t, h.store.Close())
	h.config.Dir = dir
	h.store = open(h.t, h.config)
	h.check()
}

// check compares the store with the model.
func (h *history) check() {
	t := h.t
	var want disk.Stats
	records := uint64(0)
	for i := range 60 {
		id, data := blocktest.Block(i, h.size(i))
		got, err := h.store.Get(t.Context(), id, nil)
		size, present := h.live[i]
		switch {
		case !present:
			require.ErrorIs(t, err, block.ErrNotFound, "block %d", i)
			continue
		case h.bad[i]:
			require.ErrorIs(t, err, block.ErrCorrupt, "block %d", i)
		default:
			require.NoError(t, err, "block %d", i)
			require.True(t, bytes.Equal(data, got))
		}
		want.Blocks++
		want.LiveBytes += uint64(size)
		if size > 4096 {
			records += uint64(size + header)
		}
	}
	names, err := filepath.Glob(filepath.Join(h.config.Dir, "*.seg"))
	require.NoError(t, err)
	want.Segments = len(names)
	for _, name := range names {
		info, err := os.Stat(name)
		require.NoError(t, err)
		want.SegmentBytes += uint64(info.Size())
	}
	want.DeadBytes = want.SegmentBytes - records
	got, err := h.store.Stats()
	require.NoError(t, err)
	require.Zero(t, got.Rebuilds)
	want.WrittenBytes, want.Compactions, want.MovedBlocks = got.WrittenBytes, got.Compactions, got.MovedBlocks
	want.MovedBytes, want.BadRecords = got.MovedBytes, got.BadRecords
	require.Equal(t, want, got)
	require.NoError(t, h.store.Audit())
}

// spoil flips a bit of each copy of data in the segments.
func spoil(t testing.TB, dir string, data []byte) {
	names, err := filepath.Glob(filepath.Join(dir, "*.seg"))
	require.NoError(t, err)
	found := false
	for _, name := range names {
		b, err := os.ReadFile(name)
		require.NoError(t, err)
		for from := 0; ; {
			at := bytes.Index(b[from:], data)
			if at < 0 {
				break
			}
			flip(t, name, int64(from+at+len(data)/2))
			from, found = from+at+1, true
		}
	}
	require.True(t, found)
}

// snapshot copies an open store in the state that a kill would leave. LevelDB may be at work: snapshot
// repeats the copy of files that changed during the copy.
func snapshot(t testing.TB, dir string) string {
	list := func() (files []string) {
		require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			info, err := d.Info()
			if errors.Is(err, fs.ErrNotExist) {
				return nil // LevelDB deleted it
			}
			files = append(files, path, info.ModTime().String())
			return err
		}))
		return files
	}
	for {
		before := list()
		to := filepath.Join(t.TempDir(), "store")
		if err := os.CopyFS(to, os.DirFS(dir)); err == nil && slices.Equal(before, list()) {
			return to
		}
	}
}
