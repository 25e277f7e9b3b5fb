package cluster

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/daemon"
	"github.com/globalfs/globalfs/internal/wal"
)

// copyDir copies a directory like a snapshot of a disk.
func copyDir(t *testing.T, from, to string) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "cp", "-a", from, to).CombinedOutput()
	require.NoError(t, err, string(out))
}

// putBack replaces the data directory of a stopped server by a copy.
func (v *victim) putBack(t *testing.T, server, saved string) {
	t.Helper()
	require.NoError(t, os.RemoveAll(v.DataDir(server)))
	copyDir(t, saved, v.DataDir(server))
}

// told returns the sum of the positions of a server's logs that another server knows.
func (v *victim) told(t *testing.T, by, of string) (sum wal.Position) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(v.DataDir(by), "numbers"))
	if err != nil {
		return sum
	}
	numbers := map[string]daemon.Numbers{}
	require.NoError(t, json.Unmarshal(text, &numbers))
	for _, at := range numbers[of].Logs {
		sum.Segment += at.Segment
		sum.Batch += at.Batch
	}
	return sum
}

const noticed = "the directory was rolled back"

// useWithout uses the replica of a server that was rolled back: the majority needs it without another server.
func (v *victim) useWithout(t *testing.T, without string) {
	from := len(v.log(t, without))
	v.Servers[without].Kill()
	v.write(t, 5)
	v.check(t)
	require.NoError(t, v.Servers[without].Start(t.Context()))
	require.NotContains(t, v.log(t, without)[from:], "rolled back", "a crash is none")
}

// rollBack replaces the directory of a server by a copy that was made while the server was stopped.
func (v *victim) rollBack(t *testing.T, name string) {
	server, saved := v.Servers[name], filepath.Join(t.TempDir(), "saved")
	v.write(t, 5)
	require.NoError(t, server.Stop())
	copyDir(t, v.DataDir(name), saved)
	require.NoError(t, server.Start(t.Context()))
	v.awaitHealthy(t)
	v.write(t, 20)
	v.goBack(t, name, saved)
}

// goBack replaces the directory of a server by an earlier copy. The server notices that, and is replaced.
func (v *victim) goBack(t *testing.T, name, saved string) {
	server := v.Servers[name]
	server.Kill()
	v.putBack(t, name, saved)
	from := len(v.log(t, name))
	require.NoError(t, server.Start(t.Context()))
	v.awaitSaid(t, name, from, noticed)
	v.awaitSaid(t, name, from, replaced)
	v.awaitHealthy(t)
	v.check(t)
}

// A data directory is replaced by an earlier copy, like a snapshot of a virtual machine. The server detects
// this and takes over the state of the others: no acknowledged update is lost.
func TestRollback(t *testing.T) {
	v := newVictim(t)
	servers := v.Names()
	t.Run("of a stopped server", func(t *testing.T) {
		v.rollBack(t, servers[0])
		v.useWithout(t, servers[1])
	})
	t.Run("of a server that ran", func(t *testing.T) { // the copy knows all starts
		name, other, saved := servers[1], servers[2], filepath.Join(t.TempDir(), "saved")
		server := v.Servers[name]
		v.write(t, 5)
		server.Signal(syscall.SIGSTOP)
		copyDir(t, v.DataDir(name), saved)
		server.Signal(syscall.SIGCONT)
		var before wal.Position
		require.Eventually(t, func() bool { before = v.told(t, other, name); return before != wal.Position{} }, long, 100*time.Millisecond)
		v.write(t, 20)
		require.Eventually(t, func() bool {
			now := v.told(t, other, name)
			return now.Batch > before.Batch+20 || now.Segment > before.Segment
		}, long, 100*time.Millisecond)
		v.goBack(t, name, saved)
		v.useWithout(t, servers[2])
	})
	t.Run("while etcd is away", func(t *testing.T) {
		name, saved := servers[2], filepath.Join(t.TempDir(), "saved")
		server := v.Servers[name]
		v.write(t, 5)
		require.NoError(t, server.Stop())
		copyDir(t, v.DataDir(name), saved)
		require.NoError(t, server.Start(t.Context()))
		v.Etcd.Kill() // only the other servers know the start
		v.write(t, 20)
		server.Kill()
		v.putBack(t, name, saved)
		from := len(v.log(t, name))
		require.NoError(t, server.Start(t.Context()))
		v.awaitSaid(t, name, from, noticed)
		v.check(t)
		v.write(t, 5)
		require.NoError(t, v.Etcd.Start(t.Context()))
		v.awaitSaid(t, name, from, replaced)
		v.awaitHealthy(t)
		v.check(t)
		v.useWithout(t, servers[0])
	})
	t.Run("copy beside", func(t *testing.T) { // another host runs a copy: the original server continues
		name, saved := servers[0], t.TempDir()
		copyDir(t, v.DataDir(name), filepath.Join(saved, name))
		text, err := os.ReadFile(v.file())
		require.NoError(t, err)
		free, err := FreeAddress("127.0.0.1")
		require.NoError(t, err)
		file := strings.ReplaceAll(string(text), v.path("data"), saved)
		file = strings.ReplaceAll(file, v.Address(name), free)
		path := v.path("copy.yaml")
		require.NoError(t, os.WriteFile(path, []byte(file), 0o600))
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		_, err = v.Run(ctx, "server", name, "--config", path)
		require.ErrorContains(t, err, "it runs already")
		require.True(t, v.Servers[name].Running())
		v.awaitHealthy(t)
		v.useWithout(t, servers[1])
	})
	t.Run("new directory at once", func(t *testing.T) {
		name := servers[1]
		v.Servers[name].Kill()
		require.NoError(t, os.RemoveAll(v.DataDir(name)))
		require.NoError(t, v.Servers[name].Start(t.Context())) // waits for the lease of the last run
		v.awaitHealthy(t)
		v.check(t)
	})
}
