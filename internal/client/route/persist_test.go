package route

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/ask"
)

// A loss that is reported late, or twice, does not affect later updates.
func TestForget(t *testing.T) {
	var d durable
	first, second := ask.Seen{History: 1 << 32, Count: 5}, ask.Seen{History: 2 << 32, Count: 1}
	d.wrote(first)
	d.forget(first)
	d.forget(first)
	require.EqualValues(t, 1, d.losses(first))
	d.wrote(second)
	d.forget(first)
	require.EqualValues(t, 1, d.losses(second))
	target, missing := d.target(ask.Seen{})
	require.True(t, missing)
	require.Equal(t, second, target)
}
