package pause_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/pause"
	"github.com/globalfs/globalfs/test/bubble"
)

func TestFor(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		began := time.Now()
		require.NoError(t, pause.For(t.Context(), time.Hour))
		require.Equal(t, time.Hour, time.Since(began))
		require.NoError(t, pause.For(t.Context(), -time.Second))
		require.Equal(t, time.Hour, time.Since(began))

		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		began = time.Now()
		require.ErrorIs(t, pause.For(ctx, time.Hour), context.DeadlineExceeded)
		require.Equal(t, time.Minute, time.Since(began))
		cancel()
		require.Error(t, pause.For(ctx, time.Hour))
		require.Equal(t, time.Minute, time.Since(began))
	})
}

func TestBetween(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		differ := map[time.Duration]bool{}
		for range 100 {
			began := time.Now()
			require.NoError(t, pause.Between(t.Context(), time.Second, 2*time.Second))
			took := time.Since(began)
			require.True(t, took >= time.Second && took <= 2*time.Second, "%v", took)
			differ[took] = true
		}
		require.Greater(t, len(differ), 50)
		began := time.Now()
		require.NoError(t, pause.Between(t.Context(), time.Second, time.Second))
		require.Equal(t, time.Second, time.Since(began))
	})
}
