package serve

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A process waits for a log holder whose mount ends, until it has ended; not for one of a mount in use, nor
// for the socket of one that was killed.
func TestLogsAreWaitedFor(t *testing.T) {
	dir := t.TempDir()
	if _, err := logPlace(dir); err != nil {
		t.Skip(err)
	}
	require.NoError(t, AwaitLogs(t.Context(), dir, func(LogStatus) {}))
	p := &statusSocket{now: LogStatus{PID: os.Getpid()}}
	require.NoError(t, p.listen(dir))
	began := time.Now()
	require.NoError(t, AwaitLogs(t.Context(), dir, func(LogStatus) { t.Error("the mount is in use") }))
	require.Less(t, time.Since(began), 10*logGrace)
	require.Equal(t, []LogStatus{p.now}, Logs(t.Context(), dir))

	for range 2 * maxPeers { // those that have left do not count
		require.Len(t, Logs(t.Context(), dir), 1)
	}

	p.update(func(s *LogStatus) { s.Ends, s.Changes = true, 7 })
	statuses := make(chan LogStatus, 10)
	waited := make(chan error, 1)
	go func() { waited <- AwaitLogs(t.Context(), dir, func(s LogStatus) { statuses <- s }) }()
	require.Equal(t, 7, (<-statuses).Changes)
	short, cancel := context.WithTimeout(t.Context(), 2*logGrace)
	defer cancel()
	require.ErrorContains(t, AwaitLogs(short, dir, func(LogStatus) {}), "process")
	select {
	case err := <-waited:
		require.Fail(t, "it does not wait", "%v", err)
	default:
	}
	p.close()
	require.NoError(t, <-waited)

	require.NoError(t, os.WriteFile(p.path, nil, 0o600))
	require.NoError(t, AwaitLogs(t.Context(), dir, func(LogStatus) {}))
	require.NoFileExists(t, p.path)
}
