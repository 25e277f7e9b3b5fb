package dev

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/test/logged"
)

// Concurrent updates with a total size above that of a frame, and about that of the window of a link, stop no
// replica.
func TestBurstOfLargeUpdates(t *testing.T) {
	var log logged.Text
	cfg := testConfig(t.TempDir())
	cfg.GRPC, cfg.Timeout = true, 2*time.Minute
	cfg.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))
	w := startWorld(t, cfg)
	c := w.clients[west]
	a := write(t, c, w.roots[west], "f", "x")
	value := bytes.Repeat([]byte{1}, posix.MaxXattr)
	set := func(i int) error {
		return c.SetXattr(context.Background(), posix.Cred{}, a.Ino, fmt.Sprintf("user.%d", i), value, 0)
	}
	errs := make([]error, 1000)
	if testing.Short() {
		errs = errs[:600] // under the race detector; still more than fits into a frame
	}
	var all sync.WaitGroup
	for i := range errs {
		all.Go(func() { errs[i] = set(i) })
	}
	all.Wait()
	for i, err := range errs {
		require.NoError(t, err, "update %d: %v", i, &log)
	}
	require.NoError(t, set(len(errs)))
	got, err := c.GetXattr(context.Background(), a.Ino, fmt.Sprintf("user.%d", len(errs)-1))
	require.NoError(t, err)
	require.Equal(t, value, got)
	require.NotContains(t, log.String(), "a replica has failed")
	require.NotContains(t, log.String(), "a frame was dropped")
}
