package buffers

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTakeAndGive(t *testing.T) {
	for _, n := range []int{0, 1, least - 1, least, 1 << 20, most, most + 1} {
		b := Take(n)
		require.Len(t, b, n)
		Give(b)
	}
	Give(nil)
	Give(make([]byte, 10))
	Give(Take(most)[5:]) // is not the whole
}

// Memory that was given back costs nothing.
func TestMemoryIsUsedAgain(t *testing.T) {
	Give(Take(most))
	allocated := testing.Benchmark(func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			Give(Take(1 << 20))
		}
	}).AllocedBytesPerOp()
	require.Less(t, allocated, int64(most/2))
}
