package primcast

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/pkg/multicast"
)

// receiving returns process 3, which gets a T' of nine entries. The first part has two of them.
func receiving(t *testing.T) *proc {
	c := newProc(t, 3)
	c.hear(2, newEpochOf(second))
	out := c.hear(2, newStateOf(second, 0, 9, 30), startOf(msg(1, 1), 0), entryOf(second, 1, 4, msg(1, 1)))
	require.Empty(t, said(t, out, 2, kindFetchLog))
	out = c.hear(2, startOf(msg(2, 1), 1), entryOf(second, 2, 5, msg(2, 1)))
	require.Empty(t, said(t, out, 2, kindFetchLog), "the part has not ended")
	return c
}

func requestOf(known uint64) packet {
	return packet{kind: kindFetchLog, epoch: second, index: known, length: known}
}

// TestOneRequestForEachPart: a part of many frames is followed by one request, for the next part.
func TestOneRequestForEachPart(t *testing.T) {
	c := receiving(t)
	require.Equal(t, requestOf(2), c.said(c.hear(2, bumpOf(second, 30)), 2, kindFetchLog))
	require.Empty(t, said(t, c.hear(2, bumpOf(second, 31)), 2, kindFetchLog), "it is on the way")
	for i := uint64(3); i <= 5; i++ {
		out := c.hear(2, startOf(msg(i, 1), i-1), entryOf(second, i, 3+multicast.Timestamp(i), msg(i, 1)))
		require.Empty(t, said(t, out, 2, kindFetchLog))
	}
	require.Equal(t, requestOf(5), c.said(c.hear(2, bumpOf(second, 32)), 2, kindFetchLog))

	// The answer to an earlier request arrives once more, and ends.
	out := c.hear(2, startOf(msg(3, 1), 2), entryOf(second, 3, 6, msg(3, 1)), bumpOf(second, 33))
	require.Empty(t, said(t, out, 2, kindFetchLog))
}

// TestEachEndOfAPart: a part ends with the state of its sender, which may be active, or amnesiac.
func TestEachEndOfAPart(t *testing.T) {
	for _, end := range []packet{bumpOf(second, 30), ackOf(second, 9, 30), {kind: kindSilent, epoch: second, amnesiac: true}} {
		c := receiving(t)
		require.Equal(t, requestOf(2), c.said(c.hear(2, end), 2, kindFetchLog))
	}
}

// TestArrivedEntriesStay: the link restarts, and NEW-STATE comes again with the entries from its start on. T'
// has one more entry meanwhile. The entries that have arrived are not requested again.
func TestArrivedEntriesStay(t *testing.T) {
	c := receiving(t)
	c.said(c.hear(2, bumpOf(second, 30)), 2, kindFetchLog)
	c.hear(2)
	out := c.hear(2, newStateOf(second, 0, 10, 30), startOf(msg(1, 1), 0), entryOf(second, 1, 4, msg(1, 1)), bumpOf(second, 30))
	require.Equal(t, requestOf(2), c.said(out, 2, kindFetchLog))
	for i := uint64(3); i <= 10; i++ {
		require.Equal(t, epochG, c.Stats().Current)
		c.hear(2, startOf(msg(i, 1), i-1), entryOf(second, i, 3+multicast.Timestamp(i), msg(i, 1)))
	}
	require.Equal(t, second, c.Stats().Current)
	require.EqualValues(t, 10, c.t.last())
}

// TestAPartHasAnEnd: the answer to a request for T, and NEW-STATE, are followed by the state of the process,
// also if nothing is new in it.
func TestAPartHasAnEnd(t *testing.T) {
	c, out := candidate(t)
	c.loopback(c.loopback(out))
	out = c.hear(3, promiseOf(second, epochG, 0, 4))
	c.said(out, 3, kindNewState)
	require.Len(t, said(t, out, 3, kindBump), 1)
	for range 3 {
		out = c.hear(3, promiseOf(second, epochG, 0, 4))
		c.said(out, 3, kindNewState)
		require.Len(t, said(t, out, 3, kindBump), 1)
		require.Len(t, said(t, c.hear(3, requestOf(0)), 3, kindBump), 1)
	}
}
