package notice

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/test/bubble"
)

func TestEachKindIsLoggedOnceAMinute(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var text bytes.Buffer
		l := New(slog.New(slog.NewTextHandler(&text, nil)))
		for range 3 {
			l.Rarely("storage", "no space", "partition", 3)
			l.Rarely("session", "no session")
			time.Sleep(29 * time.Second) // fake time
		}
		require.Equal(t, 1, strings.Count(text.String(), `level=WARN msg="no space" partition=3`))
		require.Equal(t, 1, strings.Count(text.String(), "no session"))
		l.Rarely("storage", "no space", "partition", 3)
		require.Equal(t, 2, strings.Count(text.String(), "no space"), "a minute is over")
	})
}
