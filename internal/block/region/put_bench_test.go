package region_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/block"
	"github.com/globalfs/globalfs/internal/block/blocktest"
	"github.com/globalfs/globalfs/internal/block/region"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// acceptor accepts every put at no cost.
type acceptor struct{ requests chan []byte } // nil: it drops them

// Call implements region.Caller.
func (a acceptor) Call(_ context.Context, _ multicast.ProcessID, request []byte) ([]byte, error) {
	if a.requests != nil {
		a.requests <- request
	}
	return []byte{0}, nil
}

// client returns the store of a client of a partition that is replicated in three regions.
func client(t testing.TB, a acceptor) *block.Cached {
	var regions []block.Store
	for range 3 {
		r, err := region.NewRemote(a, []multicast.ProcessID{1, 2, 3}, time.Minute)
		require.NoError(t, err)
		regions = append(regions, r)
	}
	nearest, err := block.NewNearest(regions...)
	require.NoError(t, err)
	return block.NewCached(nearest, block.NewMemory(4<<20))
}

// TestPutCopiesOnce: all regions get the bytes that New has copied, and the cache keeps them.
func TestPutCopiesOnce(t *testing.T) {
	a := acceptor{requests: make(chan []byte, 3)}
	cached := client(t, a)
	id, data := blocktest.Block(1, 5000)
	b := block.New(id, data)
	require.NoError(t, cached.Put(t.Context(), b))
	got, err := cached.Get(t.Context(), id, nil)
	require.NoError(t, err)
	require.Same(t, &b.Data[0], &got[0])
	frame := b.Frame()
	require.Same(t, &b.Data[0], &frame[len(frame)-5000])
	for range 3 {
		require.Same(t, &frame[0], &(<-a.requests)[0])
	}
}

// BenchmarkClientPut measures a put in a client of a partition that is replicated in three regions.
func BenchmarkClientPut(b *testing.B) {
	for _, size := range []int{1 << 10, 32 << 10, 1 << 20} {
		b.Run(fmt.Sprintf("%dKiB", size>>10), func(b *testing.B) {
			cached := client(b, acceptor{})
			_, data := blocktest.Block(1, size)
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for i := uint64(0); b.Loop(); i++ {
				require.NoError(b, cached.Put(b.Context(), block.New(posix.MakeBlockID(1, 1, i), data)))
			}
		})
	}
}
