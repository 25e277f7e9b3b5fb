package mount

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/globalfs/globalfs/internal/mount/mountpoint"
)

// holdHere is serveHere with a holder. The holder is a separate process: this process has files of the mount
// open, and so could start no daemon (see "Serving a mount to oneself").
func holdHere(t *testing.T, r role) *served {
	t.Helper()
	r.Hold, r.PID = true, filepath.Join(t.TempDir(), "pid")
	s := clusterFor(t, r)
	var err error
	s.daemon, err = start(t, s.role)
	require.NoError(t, err)
	t.Cleanup(func() {
		_ = s.daemon.stdin.Close()
		_ = unix.Unmount(s.role.Dir, unix.MNT_FORCE|unix.MNT_DETACH) // after a failure nothing may hang
	})
	return s
}

// pids returns the daemons so far.
func (s *served) pids(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile(s.role.PID)
	require.NoError(t, err)
	return strings.Fields(string(text))
}

// kill kills the daemon that serves.
func (s *served) kill(t *testing.T) {
	t.Helper()
	all := s.pids(t)
	var pid int
	_, err := fmt.Sscan(all[len(all)-1], &pid)
	require.NoError(t, err)
	require.NoError(t, unix.Kill(pid, unix.SIGKILL))
}

// A killed daemon is replaced: programs continue, and locks hold.
func TestKilledDaemon(t *testing.T) {
	h := holdHere(t, role{})
	other := mountOf(t, h.Network)
	f, err := os.Create(h.path("f"))
	require.NoError(t, err)
	require.NoError(t, flock(f, unix.LOCK_EX))
	require.Eventually(t, func() bool { _, err := os.Stat(other.path("f")); return err == nil }, 30*time.Second, 10*time.Millisecond)
	rival := other.open(t, "f")

	require.NoError(t, os.Mkdir(h.path("many"), 0o755))
	for i := range 50 {
		require.NoError(t, os.WriteFile(h.path(fmt.Sprintf("many/%d", i)), nil, 0o644))
	}
	counted := make([]int, 2)
	w := &work{failed: make(chan error, 1)}
	w.repeat(func(i int) error { return h.rewrite("rewritten", i) })
	w.repeat(func(int) error { return h.list("many", 50) })
	for i := range counted {
		w.repeat(func(int) error { counted[i]++; return h.count("counter") })
	}
	for range 3 {
		w.more(t)
		h.kill(t)
		require.Equal(t, unix.EWOULDBLOCK, flock(rival, unix.LOCK_EX|unix.LOCK_NB))
	}
	w.more(t)
	w.end(t)
	require.Len(t, h.pids(t), 4)
	var total int
	content, err := os.ReadFile(h.path("counter"))
	require.NoError(t, err)
	_, err = fmt.Sscan(string(content), &total)
	require.NoError(t, err)
	require.Equal(t, counted[0]+counted[1], total, "nobody counted without the lock")
	require.Equal(t, unix.EWOULDBLOCK, flock(rival, unix.LOCK_EX|unix.LOCK_NB))
	require.NoError(t, f.Close())
	require.NoError(t, inTime(t, func() error { return flock(rival, unix.LOCK_EX) }))
	require.NoError(t, h.daemon.stdin.Close())
	require.NoError(t, h.daemon.wait(t))
	_, ok := mountpoint.At(h.role.Dir)
	require.False(t, ok)
}

// When no daemon is left, the mount ends, so that no program hangs.
func TestDaemonsThatDie(t *testing.T) {
	h := holdHere(t, role{FailAt: "successor"})
	require.NoError(t, os.WriteFile(h.path("f"), []byte("x"), 0o644))
	h.kill(t)
	require.Error(t, h.daemon.wait(t))
	_, ok := mountpoint.At(h.role.Dir)
	require.False(t, ok)
	require.Len(t, h.pids(t), 5, "the holder gives up")
}

// A successor takes the mount of a daemon with a holder: the holder ends and does nothing to the mount.
func TestHandoverFromAHeldDaemon(t *testing.T) {
	h := holdHere(t, role{})
	require.NoError(t, os.WriteFile(h.path("f"), []byte("x"), 0o644))
	require.Eventually(t, func() bool { _, err := os.Stat(h.role.Socket); return err == nil }, 30*time.Second, 5*time.Millisecond)
	r := h.role
	r.Take, r.Hold, r.PID = true, false, ""
	next, err := start(t, r)
	require.NoError(t, err)
	require.NoError(t, h.daemon.wait(t))
	content, err := os.ReadFile(h.path("f"))
	require.NoError(t, err)
	require.Equal(t, "x", string(content))
	require.NoError(t, next.stdin.Close())
	require.NoError(t, next.wait(t))
}
