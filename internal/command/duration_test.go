package command

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestDurationFlag(t *testing.T) {
	for text, want := range map[string]time.Duration{"30": 30 * time.Second, "0.5": 500 * time.Millisecond, "1m30s": 90 * time.Second, "0": 0, "250ms": 250 * time.Millisecond} {
		var d duration
		require.NoError(t, d.Set(text))
		require.Equal(t, want, time.Duration(d), text)
		var again duration
		require.NoError(t, again.Set(d.String()))
		require.Equal(t, d, again, text)
	}
	for _, text := range []string{"", "soon", "30 s", "NaN", "Inf", "1e300"} {
		require.ErrorContains(t, new(duration).Set(text), "invalid duration", text)
	}
}
