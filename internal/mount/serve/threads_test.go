package serve

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// An answer is processed once its thread has made another request for which it waits, and not before.
func TestThreads(t *testing.T) {
	var of threads
	const thread, same, last = 7, 7 + 1<<10, 1<<threadBits - 1
	first := of.begin(thread, true)
	require.False(t, of.isProcessed(first))
	of.begin(thread+1, true)
	require.False(t, of.isProcessed(first), "another thread")
	of.begin(thread, false)
	require.False(t, of.isProcessed(first), "the kernel may have kept a request that no thread waits for")
	second := of.begin(thread, true)
	require.True(t, of.isProcessed(first))
	require.False(t, of.isProcessed(second))
	of.begin(same, true)
	require.False(t, of.isProcessed(first), "two threads in one place")

	far := of.begin(last, true)
	of.begin(last, true)
	require.True(t, of.isProcessed(far))
	unknown := of.begin(0, true)
	of.begin(0, true)
	require.False(t, of.isProcessed(unknown))
	above := of.begin(last+1, true)
	of.begin(last+1, true)
	require.False(t, of.isProcessed(above))
	require.True(t, of.isProcessed(Order{}))

	require.True(t, above.IsAfter(far.number))
	require.False(t, far.IsAfter(far.number))
	require.EqualValues(t, 11, of.count.Load())
}
