package daemon

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A backup with a number in the far future is refused before it reaches a replica.
func TestABackupOfTheFutureIsRefused(t *testing.T) {
	number := uint64(time.Now().Add(maxBackupAhead + time.Minute).UnixMilli())
	_, err := (&Server{}).backup(t.Context(), &Request{Backup: &BackupRequest{Number: number}})
	require.ErrorIs(t, err, errBackupAhead)
}
