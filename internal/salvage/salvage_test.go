package salvage

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/backup"
	"github.com/globalfs/globalfs/internal/client"
	"github.com/globalfs/globalfs/internal/daemon"
	"github.com/globalfs/globalfs/internal/dev"
	"github.com/globalfs/globalfs/internal/durable"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/topology"
	"github.com/globalfs/globalfs/internal/wal"
)

// stopped makes a cluster of three servers with some files, and stops it. It returns the directory.
func stopped(t *testing.T, files int) string {
	t.Helper()
	dir := t.TempDir()
	spec := topology.Spec{Regions: []topology.Region{"west"}, Datacenters: 3, Replicas: 3, Copies: 1}
	c, err := dev.Start(t.Context(), dev.Config{Spec: spec, Dir: dir, Durability: wal.OS, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	fs, err := c.Client("west")
	require.NoError(t, err)
	for i := range files {
		a, err := fs.Create(t.Context(), posix.Cred{}, client.Name{Dir: c.Plan.Partitions[1].Root(), Name: fmt.Sprintf("file-%d", i)}, 0o644, 0)
		require.NoError(t, err)
		_, err = fs.Write(t.Context(), posix.Cred{}, client.Write{Ino: a.Ino, Data: bytes.Repeat([]byte{byte(i)}, 20_000)})
		require.NoError(t, err)
		fs.Release(a.Ino)
	}
	require.NoError(t, fs.Close())
	require.NoError(t, c.Close())
	return dir
}

// opened recovers the servers in a directory, and closes the recovery at the end of the test.
func opened(t *testing.T, o Options) (*Salvage, error) {
	t.Helper()
	s, err := Open(t.Context(), o)
	if err == nil {
		t.Cleanup(func() { require.NoError(t, s.Close()) })
	}
	return s, err
}

// TestStatement: the statement names the partitions that may lose updates, and the reasons.
func TestStatement(t *testing.T) {
	saved := stopped(t, 8)
	server := func(dir string, n int) string { return filepath.Join(dir, fmt.Sprintf("west%c", 'a'+n)) }
	note := func(t *testing.T, dir string, n int, file string) {
		require.NoError(t, os.WriteFile(filepath.Join(server(dir, n), "partition-1", file), []byte("reason\n"), 0o600))
	}
	lose := func(t *testing.T, dir string, n int) { require.NoError(t, os.RemoveAll(server(dir, n))) }
	for name, test := range map[string]struct {
		harm    func(t *testing.T, dir string)
		short   []string
		missing string // of server westb in partition 1
		doubt   string
	}{
		"all are there": {func(*testing.T, string) {}, nil, "", ""},
		"a majority":    {func(t *testing.T, dir string) { lose(t, dir, 1) }, nil, "its data directory is not given", ""},
		"no majority":   {func(t *testing.T, dir string) { lose(t, dir, 1); lose(t, dir, 2) }, []string{"/", "/west"}, "its data directory is not given", ""},
		"a member has lost power": {func(t *testing.T, dir string) {
			lose(t, dir, 2)
			note(t, dir, 1, "amnesiac")
		}, []string{"/west"}, "", "its machine has lost power"},
		"a member was rolled back": {func(t *testing.T, dir string) {
			lose(t, dir, 2)
			note(t, dir, 1, "rolled-back")
		}, []string{"/west"}, "", "its directory was rolled back"},
		"another server knows that a member was rolled back": {func(t *testing.T, dir string) {
			lose(t, dir, 2)
			path := filepath.Join(server(dir, 0), "numbers")
			logs := map[uint32]wal.Position{}
			for p := range uint32(100) {
				logs[p] = wal.Position{Segment: math.MaxInt32}
			}
			text, err := json.Marshal(map[string]daemon.Numbers{"westb": {Server: "westb", Instance: "x", Logs: logs}})
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(path, text, 0o600))
			require.NoError(t, os.RemoveAll(path+".copy"))
		}, []string{"/", "/west"}, "", "server westa knows that its log was longer: its directory was rolled back"},
		"a member was damaged": {func(t *testing.T, dir string) {
			lose(t, dir, 2)
			note(t, dir, 1, "damaged")
		}, []string{"/west"}, "it was found damaged (reason): remove the file damaged from its directory to use it all the same", ""},
		"a log is gone": {func(t *testing.T, dir string) {
			lose(t, dir, 2)
			require.NoError(t, os.RemoveAll(filepath.Join(server(dir, 1), "partition-1", "log")))
		}, []string{"/west"}, "the write-ahead log is gone, and the store is there", ""},
		"the server was replaced": {func(t *testing.T, dir string) {
			lose(t, dir, 2)
			for _, file := range []string{"process", "process.copy"} {
				require.NoError(t, os.WriteFile(filepath.Join(server(dir, 1), "partition-1", file), []byte("77\n"), 0o600))
			}
		}, []string{"/west"}, "its disk was lost before", ""},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			require.NoError(t, os.CopyFS(dir, os.DirFS(saved)))
			test.harm(t, dir)
			s, err := opened(t, Options{Dirs: []string{dir}, Scratch: t.TempDir()})
			require.NoError(t, err)
			require.Equal(t, test.short, s.Statement.Short())
			west := s.Statement.Partitions[1].Members[1]
			require.Contains(t, west.Missing, test.missing)
			require.Equal(t, test.missing == "", west.Missing == "")
			require.Equal(t, test.doubt, west.Doubt)
			require.Empty(t, s.Statement.Changes)
			require.Empty(t, s.Statement.Commands)
			var text bytes.Buffer
			s.Statement.Print(&text)
			require.Contains(t, text.String(), "(this log counts)")
			require.Contains(t, text.String(), test.doubt)
		})
	}
}

// A recovered state is a sound backup with all files. Blocks without a copy are reported, and the rest is
// restored.
func TestRecoveredBackup(t *testing.T) {
	const files = 40 // so many that each server has copies of some
	dir := stopped(t, files)
	repository, err := backup.OpenDirectory(t.TempDir(), true)
	require.NoError(t, err)
	whole, err := Open(t.Context(), Options{Dirs: []string{dir}})
	require.NoError(t, err)
	require.Zero(t, whole.Statement.LostBlocks)
	m, err := repository.Create(t.Context(), whole, backup.Options{})
	require.NoError(t, err)
	require.Equal(t, uint64(files), m.BlockCount)
	_, err = Open(t.Context(), Options{Dirs: []string{dir}})
	require.ErrorContains(t, err, "in use", "its servers cannot start")
	require.NoError(t, whole.Close())

	require.NoError(t, os.RemoveAll(filepath.Join(dir, "westb")))
	require.NoError(t, os.RemoveAll(filepath.Join(dir, "westc")))
	s, err := opened(t, Options{Dirs: []string{filepath.Join(dir, "westa")}})
	require.NoError(t, err)
	require.Equal(t, len(s.Statement.LostFiles), s.Statement.LostBlocks)
	require.NotZero(t, s.Statement.LostBlocks, "each block has one copy on three servers")
	require.Less(t, s.Statement.LostBlocks, files)
	require.Contains(t, s.Statement.LostFiles[0], "/west/file-")
	short, err := backup.OpenDirectory(t.TempDir(), true)
	require.NoError(t, err)
	m, err = short.Create(t.Context(), s, backup.Options{})
	require.NoError(t, err)
	require.Len(t, m.Lost, s.Statement.LostBlocks)
	report, err := short.Verify(t.Context(), m.ID, backup.Options{})
	require.NoError(t, err)
	require.Empty(t, report.Problems)
	require.Equal(t, uint64(s.Statement.LostBlocks), report.Lost)
	require.Equal(t, files-report.Lost, report.Read)
}

// A partition without a survivor takes its state from a backup of the same cluster, and its blocks.
func TestStateFromABackup(t *testing.T) {
	dir := stopped(t, 3)
	where := t.TempDir()
	repository, err := backup.OpenDirectory(where, true)
	require.NoError(t, err)
	whole, err := Open(t.Context(), Options{Dirs: []string{dir}})
	require.NoError(t, err)
	m, err := repository.Create(t.Context(), whole, backup.Options{})
	require.NoError(t, err)
	require.NoError(t, whole.Close())
	for _, name := range []string{"westa", "westb", "westc"} {
		require.NoError(t, os.RemoveAll(filepath.Join(dir, name, "partition-1")))
		require.NoError(t, os.RemoveAll(filepath.Join(dir, name, "blocks")))
	}
	_, err = opened(t, Options{Dirs: []string{dir}})
	require.ErrorContains(t, err, "partition 1 (/west): none of its replicas can be read: --lost-from REPOSITORY")
	s, err := opened(t, Options{Dirs: []string{dir}, Backup: repository})
	require.NoError(t, err)
	require.Equal(t, []string{"/west"}, s.Statement.Short())
	require.Equal(t, m.ID, s.Statement.Partitions[1].Backup)
	require.Zero(t, s.Statement.LostBlocks)
	var text bytes.Buffer
	s.Statement.Print(&text)
	require.Contains(t, text.String(), "no replica is left: the state is that of backup "+m.ID)
	require.NoError(t, s.Close())

	_, err = opened(t, Options{Dirs: []string{stopped(t, 0)}, Backup: repository})
	require.NoError(t, err, "the backup is not needed")
	other := stopped(t, 0)
	for _, name := range []string{"westa", "westb", "westc"} {
		require.NoError(t, os.RemoveAll(filepath.Join(other, name, "partition-1")))
	}
	_, err = opened(t, Options{Dirs: []string{other}, Backup: repository})
	require.ErrorContains(t, err, "give a backup of that one")
	_, err = opened(t, Options{Dirs: []string{dir, other}})
	require.ErrorContains(t, err, "are of different clusters")
	_, err = opened(t, Options{Dirs: []string{where}})
	require.ErrorContains(t, err, "is neither the data directory of a server nor holds one")
}

// A partition that was being added, and has no replica left, begins empty: no backup has it.
func TestNewbornPartition(t *testing.T) {
	dir := stopped(t, 3)
	added := func(state topology.PartitionState) {
		for _, name := range []string{"westa", "westb", "westc"} {
			server, unlock, err := daemon.ReadStopped(filepath.Join(dir, name))
			require.NoError(t, err)
			if len(server.Spec.Added) == 0 {
				_, err = server.Spec.AddPartition(server.Plan, "west", nil)
				require.NoError(t, err)
			}
			server.Spec.Advance(state)
			server.Spec.Version++
			require.NoError(t, durable.WriteCopied(filepath.Join(server.Dir, "cluster.yaml"), server.Spec.YAML()))
			require.NoError(t, unlock())
		}
	}
	added(topology.PartitionStarted)
	s, err := opened(t, Options{Dirs: []string{dir}})
	require.NoError(t, err)
	require.Equal(t, []string{"/west#2"}, s.Statement.Short())
	require.Empty(t, s.Statement.Changes)
	require.Contains(t, s.Statement.Partitions[2].Members[0].Missing, "has no replica of the partition")
	var text bytes.Buffer
	s.Statement.Print(&text)
	require.Contains(t, text.String(), "partition 2 (/west#2): MAY LOSE UPDATES")
	require.Contains(t, text.String(), "the partition was being added, and begins empty")
	repository, err := backup.OpenDirectory(t.TempDir(), true)
	require.NoError(t, err)
	m, err := repository.Create(t.Context(), s, backup.Options{})
	require.NoError(t, err)
	require.Len(t, m.Partitions, 3)
	report, err := repository.Verify(t.Context(), m.ID, backup.Options{})
	require.NoError(t, err)
	require.Empty(t, report.Problems)
	require.NoError(t, s.Close())

	added(topology.PartitionActive) // directories may be in it
	_, err = opened(t, Options{Dirs: []string{dir}})
	require.ErrorContains(t, err, "partition 2 (/west#2): none of its replicas can be read: --lost-from REPOSITORY")
}
