package mount

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/test/bubble"
)

func TestRetries(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
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
