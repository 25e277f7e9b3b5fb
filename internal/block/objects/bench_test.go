package objects_test

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/block"
	"github.com/globalfs/globalfs/internal/block/blocktest"
	"github.com/globalfs/globalfs/internal/block/objects"
	"github.com/globalfs/globalfs/internal/block/objects/objectstest"
	"github.com/globalfs/globalfs/internal/posix"
)

// BenchmarkStore puts and gets, eight at a time, with a server on the same machine.
func BenchmarkStore(b *testing.B) {
	server := objectstest.Start(b, b.TempDir())
	s, err := objects.Open(b.Context(), config(server, "p"))
	require.NoError(b, err)
	defer func() { require.NoError(b, s.Close()) }()
	for _, size := range []int{32 << 10, block.MaxSize} {
		var next atomic.Uint64
		each := func(name string, do func(i uint64, buffer []byte) error) {
			b.Run(fmt.Sprintf("%s/%dKiB", name, size>>10), func(b *testing.B) {
				b.SetBytes(int64(size))
				b.ReportAllocs()
				b.SetParallelism(4)
				b.RunParallel(func(pb *testing.PB) {
					buffer := make([]byte, 0, size)
					for pb.Next() {
						if err := do(next.Add(1), buffer); err != nil {
							b.Fatal(err)
						}
					}
				})
			})
		}
		_, data := blocktest.Block(1, size)
		each("put", func(i uint64, _ []byte) error {
			return s.Put(b.Context(), block.New(posix.MakeBlockID(1, uint64(size), i), data))
		})
		last := next.Load()
		each("get", func(i uint64, buffer []byte) error {
			_, err := s.Get(b.Context(), posix.MakeBlockID(1, uint64(size), 1+i%last), buffer)
			return err
		})
	}
}
