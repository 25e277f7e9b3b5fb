package server

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/kv"
)

// The timer of an older saved state does not close a newer one, even if the timer waited for the lock. A
// state that is returned late does not replace a newer one.
func TestSavedStateOutlivesOldTimers(t *testing.T) {
	store, err := kv.Open(t.TempDir(), kv.Options{})
	require.NoError(t, err)
	defer func() { require.NoError(t, store.Close()) }()
	view := func() *kv.View {
		v, err := store.View()
		require.NoError(t, err)
		return v
	}
	var c cut
	defer c.close()
	c.keep(1, view())
	first, _ := c.take(1)
	require.NotNil(t, first)
	c.keep(2, view())
	c.expire(1)
	c.keep(1, first)
	second, newest := c.take(2)
	require.NotNil(t, second)
	require.Equal(t, uint64(2), newest)
	c.keep(2, second) // a transfer is in progress
	c.expire(2)
	c.expire(3)
	second, _ = c.take(2)
	require.Nil(t, second)
}
