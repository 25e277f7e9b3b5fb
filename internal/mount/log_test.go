package mount

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/globalfs/globalfs/internal/mount/serve"
	"github.com/globalfs/globalfs/internal/replica"
)

// The only process of a mount is killed while it holds directories. Its log holder orders all changes that it
// has answered, and ends; a mount that comes later waits for that.
func TestKilledMountOfHeldDirectories(t *testing.T) {
	r := role{Holding: true, Behind: true, PID: filepath.Join(t.TempDir(), "pid")}
	h := clusterFor(t, r)
	other := mountOf(t, h.Network)
	var carried int
	for round := range 5 {
		var err error
		h.daemon, err = start(t, h.role)
		require.NoError(t, err)
		t.Cleanup(func() { _ = h.daemon.stdin.Close() })
		w := newHeldWorker(h.role.Dir, uint64(time.Now().UnixNano()))
		require.NoError(t, w.begin(fmt.Sprintf("r%d", round)))
		for range 200 {
			require.NoError(t, w.step())
		}
		logs := serve.Logs(t.Context(), h.role.Dir)
		require.Len(t, logs, 1, "a mount has one log holder")
		all := h.pids(t)
		pid, err := strconv.Atoi(all[len(all)-1])
		require.NoError(t, err)
		require.NoError(t, unix.Kill(pid, unix.SIGKILL))
		require.Error(t, h.daemon.wait(t))
		require.NoError(t, serve.AwaitLogs(t.Context(), h.role.Dir, func(s serve.LogStatus) { carried = max(carried, s.Changes) }))
		require.Empty(t, serve.Logs(t.Context(), h.role.Dir))
		require.Eventually(t, func() bool { return hasEnded(logs[0].PID) }, 10*time.Second, time.Millisecond, "the log holder ends")
		_ = unix.Unmount(h.role.Dir, unix.MNT_DETACH) // the dead mount
		for name, content := range w.files {
			found, err := os.ReadFile(other.path(name))
			require.NoError(t, err, name)
			require.Equal(t, content, string(found))
		}
		names, err := os.ReadDir(other.path(fmt.Sprintf("r%d", round)))
		require.NoError(t, err)
		require.NotEmpty(t, names)
	}
	require.Positive(t, carried, "no process died with changes that were not ordered: the test shows nothing")
}

// A mount is killed when all of its changes are ordered. Its log holder returns the directories: another
// mount changes them at once, and not when the session has ended.
func TestKilledMountReturnsItsDirectories(t *testing.T) {
	h := clusterFor(t, role{Holding: true, PID: filepath.Join(t.TempDir(), "pid")})
	other := mountOf(t, h.Network)
	var err error
	h.daemon, err = start(t, h.role)
	require.NoError(t, err)
	t.Cleanup(func() { _ = h.daemon.stdin.Close() })
	held := filepath.Join(h.role.Dir, "held")
	require.NoError(t, os.Mkdir(held, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(held, "f"), nil, 0o644))
	d, err := os.Open(held)
	require.NoError(t, err)
	require.NoError(t, d.Sync())
	require.NoError(t, d.Close())
	all := h.pids(t)
	pid, err := strconv.Atoi(all[len(all)-1])
	require.NoError(t, err)
	require.NoError(t, unix.Kill(pid, unix.SIGKILL))
	require.Error(t, h.daemon.wait(t))
	_ = unix.Unmount(h.role.Dir, unix.MNT_DETACH)
	began := time.Now()
	require.NoError(t, os.WriteFile(other.path("held/new"), nil, 0o644))
	require.Less(t, time.Since(began), replica.RevokeAfter-time.Second, "the servers did not have to take it")
	names, err := os.ReadDir(other.path("held"))
	require.NoError(t, err)
	require.Len(t, names, 2)
}

// hasEnded reports whether a process has ended. Its parent may not have waited for it yet.
func hasEnded(pid int) bool {
	line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	return err != nil || len(line) == 0
}
