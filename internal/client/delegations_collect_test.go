package client

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/block"
	"github.com/globalfs/globalfs/internal/posix"
)

// While puts hang, one goroutine collects further blocks: also blocks of another partition are stored.
func TestOneGoroutineAlwaysCollects(t *testing.T) {
	w := newWaitingBlocks(nil)
	add := func(number byte) bool {
		return w.add(&waitingBlock{Block: block.New(posix.BlockID{15: number}, []byte("content")), due: time.Now()})
	}
	for i := range byte(putsAtATime) {
		require.True(t, add(2*i), "the others are in puts that hang")
		require.False(t, add(2*i+1), "the goroutine before has not begun its put")
		some, wait := w.next()
		require.Len(t, some, 2)
		require.Zero(t, wait)
	}
	require.False(t, add(100), "there are enough")
	w.ended()
	require.False(t, add(101), "the goroutine whose put has ended takes them")
	some, _ := w.next()
	require.Len(t, some, 2)
	w.ended()
	none, wait := w.next()
	require.Empty(t, none)
	require.Zero(t, wait)
	require.Equal(t, putsAtATime-1, w.storing)
	require.Equal(t, putsAtATime-1, w.putting)
	require.True(t, add(102), "the last goroutine that collected has ended")
}
