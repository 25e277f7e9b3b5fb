package block_test

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/block"
	"github.com/globalfs/globalfs/internal/block/blocktest"
	"github.com/globalfs/globalfs/internal/posix"
)

func BenchmarkSegments(b *testing.B) {
	for _, size := range []int{1 << 10, 32 << 10, 1 << 20} {
		for _, noSync := range []bool{false, true} {
			config := block.DefaultConfig(b.TempDir())
			config.NoSync = noSync
			s := open(b, config)
			name := fmt.Sprintf("%dKiB/sync=%v", size>>10, !noSync)
			b.Run("put/"+name, func(b *testing.B) {
				_, data := blocktest.Block(1, size)
				b.SetBytes(int64(size))
				for i := uint64(0); b.Loop(); i++ {
					require.NoError(b, s.Put(b.Context(), posix.MakeBlockID(1, 1, i), data))
				}
			})
		}
		s := open(b, block.DefaultConfig(b.TempDir()))
		id, data := blocktest.Block(1, size)
		require.NoError(b, s.Put(b.Context(), id, data))
		b.Run(fmt.Sprintf("get/%dKiB", size>>10), func(b *testing.B) {
			b.SetBytes(int64(size))
			b.ReportAllocs()
			buffer := make([]byte, 0, size)
			for b.Loop() {
				_, err := s.Get(b.Context(), id, buffer)
				require.NoError(b, err)
			}
		})
	}
}

// BenchmarkSegmentsGroupCommit has many writers, who share syncs.
func BenchmarkSegmentsGroupCommit(b *testing.B) {
	s := open(b, block.DefaultConfig(b.TempDir()))
	_, data := blocktest.Block(1, 32<<10)
	var next atomic.Uint64
	b.SetBytes(int64(len(data)))
	b.SetParallelism(16)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			require.NoError(b, s.Put(b.Context(), posix.MakeBlockID(1, 1, next.Add(1)), data))
		}
	})
}
