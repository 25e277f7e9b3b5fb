package metatest

import (
	"flag"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

var (
	seeds = flag.Uint64("seeds", 16, "runs over several partitions")
	first = flag.Uint64("seed", 0, "the first of them")
)

func TestPartitionsAreTheModel(t *testing.T) {
	var collected atomic.Uint64
	t.Cleanup(func() { require.Positive(t, collected.Load(), "blocks that were dropped") })
	for seed := *first; seed < *first+*seeds; seed++ {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			reach, err := RunPartitions(fromSeed(seed, 60000), memory)
			require.NoError(t, err)
			t.Logf("%+v", reach)
			require.Positive(t, reach.Decided, "commands over several partitions")
			require.Positive(t, reach.Elsewhere, "things made in another partition")
			require.Positive(t, reach.Aborted, "commands that were given up")
			require.Positive(t, reach.Refused, "commands that met others")
			collected.Add(reach.Collected)
		})
	}
}
