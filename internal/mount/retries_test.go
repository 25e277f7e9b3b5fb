package mount

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := retries{refused: map[uint32]time.Time{}}
		require.False(t, r.isOne(1))
		require.False(t, r.isOne(2))
		require.True(t, r.isOne(1), "soon after it was refused")
		require.False(t, r.isOne(1), "a new open")
		time.Sleep(retryWithin) // fake time
		require.False(t, r.isOne(2), "too late to be a retry")
		require.Len(t, r.refused, 1, "what is old is forgotten")
	})
}
