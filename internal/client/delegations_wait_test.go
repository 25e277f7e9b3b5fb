package client

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/client/delegate"
	"github.com/globalfs/globalfs/internal/delegation"
	"github.com/globalfs/globalfs/internal/kv"
	"github.com/globalfs/globalfs/test/bubble"
)

// A batch that has overtaken others is sent again as soon as these are acknowledged, also if that was before
// it looks.
func TestABatchIsSentAgainInItsTurn(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		log, err := delegate.New(delegate.Config{Partition: 1, Session: 1, Number: 1, Keys: kv.NewMemory()})
		require.NoError(t, err)
		d, l := &delegations{}, newLogOf(1)
		l.log = log
		start := time.Now()
		d.awaitTurn(t.Context(), l, &delegation.Batch{First: log.Acknowledged() + 1})
		require.Zero(t, time.Since(start), "nothing is before it")
		d.awaitTurn(t.Context(), l, &delegation.Batch{First: log.Acknowledged() + 2})
		require.Equal(t, batchAgain, time.Since(start), "the answer to another one may be lost")
	})
}
