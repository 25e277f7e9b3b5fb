package region_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/block"
	"github.com/globalfs/globalfs/internal/block/blocktest"
	"github.com/globalfs/globalfs/internal/block/region"
	"github.com/globalfs/globalfs/internal/posix"
)

// BenchmarkRegion measures the cost of a server as the proxy of its region, with disks and links without
// cost.
func BenchmarkRegion(b *testing.B) {
	for _, size := range []int{1 << 10, 32 << 10, 1 << 20} {
		r := blocktest.NewMemoryRegion(b, 5)
		remote := r.Client(b)
		_, data := blocktest.Block(1, size)
		b.Run(fmt.Sprintf("put/%dKiB", size>>10), func(b *testing.B) {
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for i := uint64(0); b.Loop(); i++ {
				require.NoError(b, remote.Put(b.Context(), block.New(posix.MakeBlockID(1, 1, i%100), data)))
			}
		})
		for name, first := range map[string]bool{"near": true, "far": false} {
			id := posix.MakeBlockID(1, 1, 0)
			for i := uint64(0); (r.Ring.Owners(id, 3)[0] == 1) != first || !first && slices.Contains(r.Ring.Owners(id, 3), 1); i++ {
				id = posix.MakeBlockID(1, 2, i)
			}
			require.NoError(b, remote.Put(b.Context(), block.New(id, data)))
			b.Run(fmt.Sprintf("get/%s/%dKiB", name, size>>10), func(b *testing.B) {
				b.SetBytes(int64(size))
				b.ReportAllocs()
				buffer := make([]byte, 0, size)
				for b.Loop() {
					_, err := remote.Get(b.Context(), id, buffer)
					require.NoError(b, err)
				}
			})
		}
	}
}

// BenchmarkDigest measures the cost of a comparison with one server that has all the blocks, for each block:
// a repair round of n servers does that n-1 times, and answers it n-1 times.
func BenchmarkDigest(b *testing.B) {
	const blocks = 20000
	s := openDisk(b)
	disks := []region.Disk{s}
	for range 4 {
		disks = append(disks, blocktest.NewMemory(blocktest.Big))
	}
	r := blocktest.NewRegion(b, 3, disks...)
	for i := range uint64(blocks) {
		require.NoError(b, s.Put(b.Context(), block.New(posix.MakeBlockID(1, 1, i), []byte("content"))))
	}
	pong, err := r.Call(b.Context(), 1, []byte{9, 0, 0})
	require.NoError(b, err)
	scope := slices.Concat([]byte{13}, pong[1:], []byte{2, 0}) // opDigest of the members it has, for server 2, nobody down
	for b.Loop() {
		for at := (block.ID{}); at != block.LastID; {
			reply, err := r.Call(b.Context(), 1, slices.Concat(scope, at[:]))
			require.NoError(b, err)
			require.Zero(b, reply[0])
			copy(at[:], reply[1:])
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/blocks, "ns/block")
}
