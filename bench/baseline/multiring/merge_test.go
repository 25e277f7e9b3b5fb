package multiring

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/pkg/multicast"
)

// TestMerge walks the round robin: M slots of one ring, M of the other.
func TestMerge(t *testing.T) {
	for every := range uint64(5) {
		m := merge(every + 1)
		var next [ranks]uint64
		for ts := multicast.Timestamp(1); ts < 200; ts++ {
			rank := uint8((uint64(ts) - 1) / uint64(m) % ranks)
			require.Equal(t, ts, m.final(rank, next[rank]), "M %d, ring %d, slot %d", m, rank, next[rank])
			next[rank]++
			for rank := range uint8(ranks) {
				require.Equal(t, next[rank], m.after(rank, ts), "M %d, ring %d: the first slot after %d", m, rank, ts)
			}
		}
	}
}

// beside returns the least number of slots of a group's ring such that no message in the first slots of the
// global ring waits for the group's ring.
func TestBeside(t *testing.T) {
	for every := range uint64(5) {
		m := merge(every + 1)
		require.Zero(t, m.beside(0))
		for slots := uint64(1); slots < 50; slots++ {
			last := m.final(globalRank, slots-1)
			require.Greater(t, m.final(groupRank, m.beside(slots)), last, "M %d, %d slots", m, slots)
			require.Less(t, m.final(groupRank, m.beside(slots)-1), last, "M %d, %d slots", m, slots)
		}
	}
}
