package disk_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/block"
	"github.com/globalfs/globalfs/internal/block/blocktest"
	"github.com/globalfs/globalfs/internal/block/disk"
)

// Sizes of the blocks of the crash tests, in bytes, and places of their records.
const (
	header    = 32
	firstSize = 6000
	lastSize  = 4200
	lastAt    = header + firstSize
	endAt     = lastAt + header + lastSize
	segment   = "00000000.seg"
)

// image is the directory of a store with a first and a last block in one segment.
type image struct {
	dir     string // after both puts
	lagging string // the same segment, with the index between the puts
}

// newImage makes an image. A small block is in the index.
func newImage(t testing.TB) image {
	dir := t.TempDir()
	put := func(i, size int) {
		s := open(t, noSync(dir))
		id, data := blocktest.Block(i, size)
		require.NoError(t, s.Put(t.Context(), block.New(id, data)))
		require.NoError(t, s.Close())
	}
	put(0, 100)
	put(1, firstSize)
	before := clone(t, dir)
	put(2, lastSize)
	require.EqualValues(t, endAt, sizeOf(t, dir))

	lagging := t.TempDir()
	require.NoError(t, os.CopyFS(filepath.Join(lagging, "index"), os.DirFS(filepath.Join(before, "index"))))
	require.NoError(t, copyFile(filepath.Join(lagging, segment), filepath.Join(dir, segment)))
	return image{dir: dir, lagging: lagging}
}

func noSync(dir string) disk.Config {
	config := disk.DefaultConfig(dir)
	config.NoSync = true
	return config
}

// clone copies a store.
func clone(t testing.TB, dir string) string {
	to := filepath.Join(t.TempDir(), "store")
	require.NoError(t, os.CopyFS(to, os.DirFS(dir)))
	return to
}

func copyFile(to, from string) error {
	b, err := os.ReadFile(from)
	return errors.Join(err, os.WriteFile(to, b, 0o600))
}

func sizeOf(t testing.TB, dir string) int64 {
	info, err := os.Stat(filepath.Join(dir, segment))
	require.NoError(t, err)
	return info.Size()
}

// requireHas fails unless the block is there, or is not.
func requireHas(t testing.TB, s block.Store, i, size int, present bool) {
	t.Helper()
	id, data := blocktest.Block(i, size)
	if present {
		blocktest.RequireBlock(t, s, id, data)
		return
	}
	_, err := s.Get(t.Context(), id, nil)
	require.ErrorIs(t, err, block.ErrNotFound)
}

// offsets returns offsets of the last record: all around its ends, some between.
func offsets() []int64 {
	var chosen []int64
	for at := int64(lastAt); at < endAt; at++ {
		if at < lastAt+header+8 || at > endAt-8 || at%211 == 0 {
			chosen = append(chosen, at)
		}
	}
	return chosen
}

// TestTornTail cuts the last segment, with an index that has the last block and with one that does not (S2,
// S3).
func TestTornTail(t *testing.T) {
	made := newImage(t)
	for name, from := range map[string]string{"indexed": made.dir, "not indexed": made.lagging} {
		t.Run(name, func(t *testing.T) {
			for _, at := range offsets() {
				dir := clone(t, from)
				require.NoError(t, os.Truncate(filepath.Join(dir, segment), at))
				for range 2 { // after one repair it is like any other
					s := open(t, noSync(dir))
					requireHas(t, s, 0, 100, true)
					requireHas(t, s, 1, firstSize, true)
					requireHas(t, s, 2, lastSize, false)
					id, data := blocktest.Block(3, 9000)
					require.NoError(t, s.Put(t.Context(), block.New(id, data)))
					requireHas(t, s, 3, 9000, true)
					require.NoError(t, s.Close())
				}
			}
		})
	}
}

// TestKilledBeforeIndexed finds a block with a written record and without an index entry (S1).
func TestKilledBeforeIndexed(t *testing.T) {
	dir := newImage(t).lagging
	for range 2 {
		s := open(t, noSync(dir))
		requireHas(t, s, 1, firstSize, true)
		requireHas(t, s, 2, lastSize, true)
		require.Len(t, all(t, s), 3)
		require.NoError(t, s.Close())
	}
	require.EqualValues(t, endAt, sizeOf(t, dir))
}

// TestIndexLost rebuilds a missing index from the segments.
func TestIndexLost(t *testing.T) {
	dir := newImage(t).dir
	require.NoError(t, os.RemoveAll(filepath.Join(dir, "index")))
	s := open(t, noSync(dir))
	requireHas(t, s, 0, 100, false)
	requireHas(t, s, 1, firstSize, true)
	requireHas(t, s, 2, lastSize, true)
}

// TestManySegments finds the blocks of all segments again.
func TestManySegments(t *testing.T) {
	config := noSync(t.TempDir())
	config.SegmentBytes = block.MaxSize
	config.OpenFiles = 2
	const blocks, size = 9, 700 << 10
	s := open(t, config)
	for i := range blocks {
		id, data := blocktest.Block(i, size)
		require.NoError(t, s.Put(t.Context(), block.New(id, data)))
	}
	require.NoError(t, s.Close())
	segments, err := filepath.Glob(filepath.Join(config.Dir, "*.seg"))
	require.NoError(t, err)
	require.Len(t, segments, (blocks+1)/2)
	require.NoError(t, os.RemoveAll(filepath.Join(config.Dir, "index")))
	for range 2 {
		s = open(t, config)
		for i := range blocks {
			requireHas(t, s, i, size, true)
		}
		require.NoError(t, s.Close())
	}
}

// TestSegmentLost drops the entries of a missing segment.
func TestSegmentLost(t *testing.T) {
	dir := newImage(t).dir
	require.NoError(t, os.Remove(filepath.Join(dir, segment)))
	s := open(t, noSync(dir))
	requireHas(t, s, 0, 100, true)
	requireHas(t, s, 1, firstSize, false)
	require.Len(t, all(t, s), 1)
}

// A segment that is removed while the store is open counts as a bad copy of its blocks.
func TestSegmentLostWhileOpen(t *testing.T) {
	dir := newImage(t).dir
	s := open(t, noSync(dir))
	require.NoError(t, os.Remove(filepath.Join(dir, segment)))
	id, _ := blocktest.Block(1, firstSize)
	_, err := s.Get(t.Context(), id, nil)
	require.ErrorIs(t, err, block.ErrCorrupt)
	require.ErrorIs(t, err, os.ErrNotExist)
	require.ErrorContains(t, err, id.String())
}

// TestDeletedStaysDeleted reopens after the delete of a block with its record still in the segment (S5).
func TestDeletedStaysDeleted(t *testing.T) {
	dir := newImage(t).dir
	s := open(t, noSync(dir))
	id, _ := blocktest.Block(2, lastSize)
	require.NoError(t, s.Delete(t.Context(), []block.ID{id}))
	require.NoError(t, s.Close())
	s = open(t, noSync(dir))
	requireHas(t, s, 1, firstSize, true)
	requireHas(t, s, 2, lastSize, false)
}

// flip changes one bit of a file.
func flip(t testing.TB, path string, at int64) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	require.NoError(t, err)
	var b [1]byte
	_, err = f.ReadAt(b[:], at)
	require.NoError(t, err)
	b[0] ^= 1 << (at % 8)
	_, err = f.WriteAt(b[:], at)
	require.NoError(t, errors.Join(err, f.Close()))
}

// A get finds flipped bits (B1), and a put replaces the bad copy (B2), also if the store dies before the
// change of the index.
func TestFlippedBits(t *testing.T) {
	dir := newImage(t).dir
	id, data := blocktest.Block(2, lastSize)
	for _, at := range offsets() {
		if at < lastAt+header {
			continue // Get does not read the header: Open (behind the frontier) and the scrubber do
		}
		flip(t, filepath.Join(dir, segment), at)
		s := open(t, noSync(dir))
		got, err := s.Get(t.Context(), id, nil)
		require.Nil(t, got)
		require.ErrorIs(t, err, block.ErrCorrupt)
		var corrupt *block.CorruptError
		require.ErrorAs(t, err, &corrupt)
		require.Equal(t, block.CorruptError{ID: id, File: segment, Offset: lastAt}, *corrupt)
		requireHas(t, s, 1, firstSize, true)
		require.NoError(t, s.Close())
		flip(t, filepath.Join(dir, segment), at)
	}

	flip(t, filepath.Join(dir, segment), endAt-1)
	before := clone(t, filepath.Join(dir, "index"))
	s := open(t, noSync(dir))
	require.NoError(t, s.Put(t.Context(), block.New(id, data)))
	blocktest.RequireBlock(t, s, id, data)
	require.NoError(t, s.Close())
	require.NoError(t, os.RemoveAll(filepath.Join(dir, "index")))
	require.NoError(t, os.Rename(before, filepath.Join(dir, "index")))
	blocktest.RequireBlock(t, open(t, noSync(dir)), id, data)
}

// A block with flipped bits behind the frontier is absent after the store opens: no get returns wrong bytes.
func TestFlippedBitsBehindTheFrontier(t *testing.T) {
	lagging := newImage(t).lagging
	for _, at := range offsets() {
		dir := clone(t, lagging)
		flip(t, filepath.Join(dir, segment), at)
		s := open(t, noSync(dir))
		requireHas(t, s, 1, firstSize, true)
		requireHas(t, s, 2, lastSize, false)
		require.EqualValues(t, lastAt, sizeOf(t, dir))
		require.NoError(t, s.Close())
	}
}

// TestBadRecordInTheMiddle does not hide the records behind it.
func TestBadRecordInTheMiddle(t *testing.T) {
	dir := newImage(t).dir
	require.NoError(t, os.RemoveAll(filepath.Join(dir, "index")))
	flip(t, filepath.Join(dir, segment), header+5)
	s := open(t, noSync(dir))
	requireHas(t, s, 1, firstSize, false)
	requireHas(t, s, 2, lastSize, true)
}

// TestReserve refuses puts, and allows deletes, when the disk is nearly full.
func TestReserve(t *testing.T) {
	dir := newImage(t).dir
	config := noSync(dir)
	config.ReserveBytes = 1 << 62
	s := open(t, config)
	for i, size := range []int{10, 10000} {
		id, data := blocktest.Block(10+i, size)
		require.ErrorIs(t, s.Put(t.Context(), block.New(id, data)), block.ErrNoSpace)
		requireHas(t, s, 10+i, size, false)
	}
	id, data := blocktest.Block(1, firstSize)
	require.NoError(t, s.Put(t.Context(), block.New(id, data)), "what is there needs no space")
	require.NoError(t, s.Delete(t.Context(), []block.ID{id}))
	require.EqualValues(t, endAt, sizeOf(t, dir))
}

// TestDiskFull fills a real file system.
func TestDiskFull(t *testing.T) {
	testFull(t, filepath.Join(blocktest.SmallDisk(t, "16m"), "store"))
}

// TestFileLimit writes beyond the file size limit of the process, which cuts a write short as a full disk
// does.
func TestFileLimit(t *testing.T) {
	blocktest.WithFileLimit(t, func(limit func(bytes uint64)) {
		limit(5<<20 + 1000)
		testFull(t, t.TempDir())
	})
}

// testFull puts until the disk is full: each put is complete or leaves no trace (S4).
func testFull(t *testing.T, dir string) {
	const puts = 20
	config := disk.DefaultConfig(dir)
	config.ReserveBytes = 0
	s := open(t, config)
	var kept []bool
	for i := range puts {
		id, data := blocktest.Block(i, block.MaxSize-i)
		err := s.Put(t.Context(), block.New(id, data))
		if err != nil {
			require.ErrorIs(t, err, block.ErrNoSpace)
		}
		kept = append(kept, err == nil)
	}
	require.Contains(t, kept, false)
	require.True(t, kept[0])
	for range 2 {
		n := 0
		for i, k := range kept {
			requireHas(t, s, i, block.MaxSize-i, k)
			if k {
				n++
			}
		}
		require.EqualValues(t, n, len(all(t, s)))
		require.NoError(t, s.Close())
		s = open(t, config)
	}
	require.NoError(t, s.Close())
}

// all returns the ids of all blocks.
func all(t testing.TB, s block.Store) []block.ID {
	ids, err := blocktest.Collect(s.Range(t.Context(), block.ID{}, block.LastID))
	require.NoError(t, err)
	return ids
}
