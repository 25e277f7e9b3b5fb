package block_test

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/block"
	"github.com/globalfs/globalfs/internal/block/blocktest"
)

// BenchmarkCached has eight readers, of blocks that are in memory ("hit") and of blocks that are not
// ("miss"); "copy" is the cost that no cache can avoid.
func BenchmarkCached(b *testing.B) {
	const blocks, readers = 32, 8
	for _, size := range []int{4 << 10, 1 << 20} {
		disk := blocktest.NewMemory(blocktest.Big)
		var ids []block.ID
		for i := range blocks {
			id, data := blocktest.Block(i, size)
			require.NoError(b, disk.Put(b.Context(), block.New(id, data)))
			ids = append(ids, id)
		}
		for name, s := range map[string]block.Store{
			"hit":  block.NewCached(disk, block.NewMemory(2*blocks*size)),
			"miss": block.NewCached(disk, block.NewMemory(size)),
		} {
			b.Run(fmt.Sprintf("%s/%dKiB", name, size>>10), func(b *testing.B) {
				b.SetBytes(int64(size))
				b.ReportAllocs()
				var next atomic.Int64
				b.SetParallelism(readers / 2)
				b.RunParallel(func(pb *testing.PB) {
					buffer := make([]byte, 0, size)
					for pb.Next() {
						if _, err := s.Get(b.Context(), ids[next.Add(1)%blocks], buffer); err != nil {
							b.Fatal(err)
						}
					}
				})
			})
		}
		b.Run(fmt.Sprintf("copy/%dKiB", size>>10), func(b *testing.B) {
			b.SetBytes(int64(size))
			b.SetParallelism(readers / 2)
			_, data := blocktest.Block(1, size)
			b.RunParallel(func(pb *testing.PB) {
				buffer := make([]byte, 0, size)
				for pb.Next() {
					buffer = append(buffer[:0], data...)
				}
			})
		})
	}
}
