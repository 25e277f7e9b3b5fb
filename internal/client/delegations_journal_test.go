package client

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/client/delegate"
	"github.com/globalfs/globalfs/internal/delegation"
	"github.com/globalfs/globalfs/internal/posix"
)

// While an operation that the journal has not is not acknowledged, the log takes no change: the journal has
// no gap that the next process would have to know of.
func TestTheJournalHasNoGap(t *testing.T) {
	var d delegations
	l := newLogOf(0)
	log, err := delegate.New(d.logConfig(l, 1, 1))
	require.NoError(t, err)
	l.log = log
	log.Return([]posix.Ino{5})
	require.False(t, l.isFull(d.journal))
	l.unkept = log.Last()
	require.True(t, l.isFull(d.journal))
	log.Return([]posix.Ino{6})
	_, sent := log.Next()
	require.True(t, sent)
	log.Acknowledge(&delegation.Done{Next: 2})
	require.Equal(t, 1, log.Len())
	require.False(t, l.isFull(d.journal))
}
