package client

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
)

// An update enters while the gate is open, if the gate has not moved since the update looked at the logs. The
// gate is shut when no update is inside.
func TestTheGate(t *testing.T) {
	var g gate
	ctx, cancel := context.WithCancel(t.Context())
	enter := func(turns uint64) bool {
		entered, err := g.enter(t.Context(), turns)
		require.NoError(t, err)
		return entered
	}
	before := g.count()
	require.True(t, enter(before))
	shut := make(chan error)
	go func() { shut <- g.shut(t.Context()) }()
	for g.count() == before {
		continue
	}
	closed := g.count()
	g.leave()
	require.NoError(t, <-shut)
	waiting := make(chan bool)
	go func() { waiting <- enter(closed) }()
	cancel()
	_, err := g.enter(ctx, closed)
	require.ErrorIs(t, err, context.Canceled)
	g.open()
	require.False(t, <-waiting, "it has looked at the logs while the gate was closed")
	require.False(t, enter(before))
	require.True(t, enter(g.count()))
	require.ErrorIs(t, g.shut(ctx), context.Canceled, "an update is inside")
	require.True(t, enter(g.count()), "it is open again")
}
