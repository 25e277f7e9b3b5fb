package server

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/kv"
	"github.com/globalfs/globalfs/internal/wal"
)

func makeLog(t *testing.T, dir string) {
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "log"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "log", "0000000000000001.wal"), nil, 0o600))
}

// A start marks the replicas if, and only if, the life before it may have lost records.
func TestLossOfPowerIsNoticed(t *testing.T) {
	os1 := &life{Boot: "1", Unsynced: true}
	for name, c := range map[string]struct {
		last   *life
		boot   string
		now    wal.Durability
		marked bool
	}{
		"the process alone has died":             {last: os1, boot: "1", now: wal.OS},
		"power was lost":                         {last: os1, boot: "2", now: wal.OS, marked: true},
		"power was lost, and the mode changed":   {last: os1, boot: "2", now: wal.Sync, marked: true},
		"a stop before the loss":                 {last: &life{Boot: "1", Unsynced: true, Clean: true}, boot: "2", now: wal.OS},
		"all was synced":                         {last: &life{Boot: "1"}, boot: "2", now: wal.OS},
		"all was synced, and is":                 {last: &life{Boot: "1"}, boot: "2", now: wal.Sync},
		"an older version was here, with os":     {boot: "2", now: wal.OS, marked: true},
		"an older version was here, with sync":   {boot: "2", now: wal.Sync},
		"the boot id was not known":              {last: &life{Unsynced: true}, boot: "2", now: wal.OS, marked: true},
		"nothing is kept":                        {last: os1, boot: "2", now: wal.Memory},
		"the process has died in the wrong mode": {last: os1, boot: "1", now: wal.Sync},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(bootVariable, c.boot)
			dir := t.TempDir()
			replica, other := filepath.Join(dir, "partition-3"), filepath.Join(dir, "partition-3.damaged-7")
			fresh := filepath.Join(dir, "partition-4")
			require.NoError(t, os.Mkdir(fresh, 0o700))
			makeLog(t, replica)
			makeLog(t, other)
			if c.last != nil {
				require.NoError(t, c.last.save(dir))
			}
			l, err := beginLife(dir, c.now, slog.New(slog.DiscardHandler))
			require.NoError(t, err)
			marked, err := isMarked(replica)
			require.NoError(t, err)
			require.Equal(t, c.marked, marked)
			for _, dir := range []string{other, fresh} {
				marked, err = isMarked(dir)
				require.NoError(t, err)
				require.False(t, marked)
			}
			if c.now == wal.Memory {
				return
			}
			// A later loss is detected. It is detected even before the replicas are open if the earlier life
			// was unsynced.
			saved, err := lastLife(dir, c.now)
			require.NoError(t, err)
			require.Equal(t, l, saved)
			unsynced := c.now == wal.OS || c.last != nil && c.last.Unsynced && !c.last.Clean
			require.Equal(t, unsynced, saved.lost("3"))
			require.NoError(t, l.settle(dir, c.now))
			saved, err = lastLife(dir, c.now)
			require.NoError(t, err)
			require.Equal(t, c.now == wal.OS, saved.lost("3"))
			require.False(t, saved.lost(c.boot))
		})
	}
}

// While the marks are missing, the boot id does not change: the next start tries again.
func TestMarksComeFirst(t *testing.T) {
	t.Setenv(bootVariable, "2")
	dir := t.TempDir()
	require.NoError(t, (&life{Boot: "1", Unsynced: true}).save(dir))
	makeLog(t, filepath.Join(dir, "partition-0"))
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "partition-0", amnesiacFile+".new"), 0o700)) // cannot be written
	_, err := beginLife(dir, wal.OS, slog.New(slog.DiscardHandler))
	require.Error(t, err)
	saved, err := lastLife(dir, wal.OS)
	require.NoError(t, err)
	require.True(t, saved.lost("2"))
}

func TestUnreadableLifeIsALoss(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "life"), []byte("{"), 0o600))
	l, err := lastLife(dir, wal.Sync)
	require.NoError(t, err)
	require.True(t, l.lost("1"))
}

// A stop is clean only if all replicas have synced their data.
func TestCleanStop(t *testing.T) {
	t.Setenv(bootVariable, "1")
	for name, c := range map[string]struct {
		unsettled bool
		damaged   map[uint16]Damage
		clean     bool
	}{
		"all are synced":     {clean: true},
		"one is perhaps not": {unsettled: true},
		"one did not run":    {damaged: map[uint16]Damage{1: {}}},
	} {
		t.Run(name, func(t *testing.T) {
			s := &Server{cfg: Config{Dir: t.TempDir(), Durability: wal.OS}, unsettled: c.unsettled, damaged: c.damaged}
			require.NoError(t, s.endLife())
			l, err := lastLife(s.cfg.Dir, wal.OS)
			require.NoError(t, err)
			require.Equal(t, !c.clean, l.lost("2"))
		})
	}
	require.Error(t, (&hosted{}).settle(), "it is closed, and was not settled")
}

// syncedLog counts its syncs, and fails them with err.
type syncedLog struct {
	silent
	syncs int
	err   error
}

func (l *syncedLog) Sync() error {
	l.syncs++
	return l.err
}

// The store is synced only after the log.
func TestLogIsSyncedBeforeTheStore(t *testing.T) {
	log := &syncedLog{err: errors.New("disk")}
	k := syncedKeys{kv.NewMemory(), log}
	k.Set([]byte("key"), []byte("value"))
	require.ErrorIs(t, k.Commit(true), log.err)
	require.Equal(t, 1, log.syncs)
	require.NoError(t, k.Commit(false))
	require.Equal(t, 1, log.syncs)
	log.err = nil
	require.NoError(t, k.Commit(true))
	require.Equal(t, 2, log.syncs)
}
