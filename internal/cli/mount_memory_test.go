package cli

import (
	"runtime"
	"runtime/metrics"
	"testing"

	"github.com/stretchr/testify/require"
)

// The heap of a serving process grows by spareHeap before the collector runs.
func TestSpareHeap(t *testing.T) {
	goal := func() uint64 {
		runtime.GC()
		of := []metrics.Sample{{Name: "/gc/heap/goal:bytes"}}
		metrics.Read(of)
		return of[0].Value.Uint64()
	}
	before := goal()
	reserved := reserveHeap()
	require.Greater(t, goal(), before+2*spareHeap-16<<20)
	runtime.KeepAlive(reserved)
}
