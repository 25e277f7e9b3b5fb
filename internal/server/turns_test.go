package server

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/test/bubble"
)

// The turns of a replica are short if it works for half of the time or longer.
func TestTurnsAreShort(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var idle, busy time.Duration
		r := replicaTurns{worked: func() map[uint16]time.Duration { return map[uint16]time.Duration{1: idle, 2: busy} }}
		after := func(pause, worked time.Duration) bool {
			time.Sleep(pause)
			busy += worked
			return r.areShort()
		}
		require.False(t, after(sampleEvery, sampleEvery), "the first call measures nothing")
		require.True(t, after(sampleEvery, sampleEvery))
		require.True(t, after(sampleEvery, sampleEvery/2))
		require.False(t, after(sampleEvery, sampleEvery/2-time.Millisecond))
		require.False(t, after(longInterval, longInterval), "long ago")
		busy = 0 // the replica has restarted
		require.False(t, after(sampleEvery, time.Millisecond))
		require.True(t, after(sampleEvery, sampleEvery))
	})
}

// A client gives way at a replica without free turns, though processors are free.
func TestGivesWayWithoutTurns(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, hostile := busy(false), narrow("hostile")
		c.areTurnsShort = func() bool { return true }
		parallel := map[*ask.Client]int{hostile: 10, usual("mount"): 1}
		during(t, c, time.Second, parallel)
		require.Equal(t, 1, during(t, c, time.Second, parallel)[hostile].most)
	})
}
