package block_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/block"
	"github.com/globalfs/globalfs/internal/block/blocktest"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// acceptor takes every put and costs nothing.
type acceptor struct{}

func (acceptor) Call(context.Context, multicast.ProcessID, []byte) ([]byte, error) {
	return []byte{0}, nil
}

// BenchmarkClientPut is what a put costs in a client whose partition is replicated in three regions.
func BenchmarkClientPut(b *testing.B) {
	for _, size := range []int{1 << 10, 32 << 10, 1 << 20} {
		b.Run(fmt.Sprintf("%dKiB", size>>10), func(b *testing.B) {
			var regions []block.Store
			for range 3 {
				r, err := block.NewRemote(acceptor{}, []multicast.ProcessID{1, 2, 3}, time.Minute)
				require.NoError(b, err)
				regions = append(regions, r)
			}
			nearest, err := block.NewNearest(regions...)
			require.NoError(b, err)
			cached := block.NewCached(nearest, 4<<20)
			_, data := blocktest.Block(1, size)
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for i := uint64(0); b.Loop(); i++ {
				require.NoError(b, cached.Put(b.Context(), posix.MakeBlockID(1, 1, i), data))
			}
		})
	}
}
