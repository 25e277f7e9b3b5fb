package region_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/block"
	"github.com/globalfs/globalfs/internal/block/blocktest"
	"github.com/globalfs/globalfs/internal/block/disk"
	"github.com/globalfs/globalfs/internal/block/region"
	"github.com/globalfs/globalfs/pkg/multicast"
	"github.com/globalfs/globalfs/test/bubble"
)

// TestSegmentsHeal: with real files, a server loses its disk and the segments of another one get flipped
// bytes. The region becomes whole again, and counts the damage that it has found.
func TestSegmentsHeal(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		dirs := make([]string, 4)
		stores := make([]*disk.Store, 4)
		disks := make([]region.Disk, 4)
		openDisk := func(i int) {
			dirs[i] = t.TempDir()
			config := disk.DefaultConfig(dirs[i])
			config.NoSync = true
			var err error
			stores[i], err = disk.Open(config)
			require.NoError(t, err)
			disks[i] = stores[i]
		}
		for i := range disks {
			openDisk(i)
		}
		r := blocktest.NewRegion(t, 3, disks...)
		defer func() {
			r.Close()
			for _, s := range stores {
				require.NoError(t, s.Close())
			}
			time.Sleep(3 * time.Second) // virtual: LevelDB drains its buffers
		}()
		for i := range 60 {
			id, data := blocktest.Block(i, 5000+100*(i%40)) // in segments
			require.NoError(t, r.Client(t).Put(t.Context(), block.New(id, data)))
		}
		for p := multicast.ProcessID(1); p <= 4; p++ {
			r.Run(p)
		}
		lost, err := blocktest.Collect(stores[1].Range(t.Context(), block.ID{}, block.LastID))
		require.NoError(t, err)
		r.Crash(2)
		require.NoError(t, stores[1].Close())
		openDisk(1)
		r.SetDisk(2, disks[1])
		r.Restart(t, 2)
		rotten := flipFive(t, dirs[2])

		time.Sleep(2 * blocktest.Healing().ScrubPause) // virtual
		for i := range 60 {
			id, data := blocktest.Block(i, 5000+100*(i%40))
			require.Equal(t, r.Ring.Owners(id, 3), holders(t, r, id))
			for _, p := range r.Ring.Owners(id, 3) {
				blocktest.RequireBlock(t, r.Disks[p], id, data)
			}
		}
		require.EqualValues(t, len(lost), r.Node(2).Status().Repair.Fetched)
		scrub := r.Node(3).Status().Scrub
		require.Equal(t, scrub.Found, scrub.Fixed)
		require.EqualValues(t, rotten, sum(r, func(s region.Status) uint64 { return s.Repair.Replaced }), "by the scrub, or when 2 fetched it")
	})
}

// flipFive flips a byte in the data of five records of the first segment, and returns the number of flipped
// bytes.
func flipFive(t *testing.T, dir string) int {
	paths, err := filepath.Glob(filepath.Join(dir, "*.seg"))
	require.NoError(t, err)
	require.NotEmpty(t, paths)
	content, err := os.ReadFile(paths[0])
	require.NoError(t, err)
	f, err := os.OpenFile(paths[0], os.O_RDWR, 0)
	require.NoError(t, err)
	defer func() { require.NoError(t, f.Close()) }()
	for i := range 5 {
		at := (i*2 + 1) * len(content) / 11 // records have less than an eleventh
		_, err := f.WriteAt([]byte{content[at] ^ 1}, int64(at))
		require.NoError(t, err)
	}
	return 5
}
