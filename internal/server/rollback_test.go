package server

import (
	"log/slog"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/wal"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// A log in memory is not compared with the positions of an earlier log on disk, and reports no position.
func TestNoPositionsInMemory(t *testing.T) {
	was := func(multicast.ProcessID, wal.Position) string { return "others know of a longer log" }
	s := &Server{cfg: Config{Durability: wal.Memory, RolledBack: was}}
	require.NoError(t, s.checkPosition(&hosted{}, t.TempDir()))
	require.Empty(t, s.Positions(t.Context()))
}

// The name of the data directory is not used as a pattern.
func TestDirectoryWithABracket(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a[b")
	replica, aside := filepath.Join(dir, "partition-3"), filepath.Join(dir, "partition-3.damaged-7")
	has, err := hasLog(filepath.Join(replica, "log"))
	require.NoError(t, err)
	require.False(t, has)
	makeLog(t, replica)
	makeLog(t, aside)
	has, err = hasLog(filepath.Join(replica, "log"))
	require.NoError(t, err)
	require.True(t, has)

	require.NoError(t, markAmnesiac(dir, slog.New(slog.DiscardHandler)))
	require.FileExists(t, filepath.Join(replica, amnesiacFile))
	require.NoError(t, NoteRollback(dir, 9, "a test"))
	require.ErrorIs(t, checkRolledBack(replica), ErrRolledBack)
	require.NoError(t, checkRolledBack(aside))
	last, err := LastIncarnation(dir)
	require.NoError(t, err)
	require.EqualValues(t, 9, last)
}
