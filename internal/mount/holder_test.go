package mount

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// heldMount is a mount whose daemons a holder in this process starts.
type heldMount struct {
	*served
	stdin *os.File
	ended chan error

	mu  sync.Mutex
	pid []*exec.Cmd // GUARDED_BY mu; of all daemons so far
}

func holdHere(t *testing.T, ctx context.Context, r role) *heldMount {
	t.Helper()
	h := &heldMount{served: clusterFor(t, r), ended: make(chan error, 1)}
	in, stdin, err := os.Pipe()
	require.NoError(t, err)
	h.stdin = stdin
	text, err := json.Marshal(h.role)
	require.NoError(t, err)
	holder := &Holder{Logger: slog.New(slog.DiscardHandler), Command: func(ctx context.Context) *exec.Cmd {
		cmd := exec.CommandContext(ctx, os.Args[0])
		cmd.Env = append(os.Environ(), roleVariable+"="+string(text))
		cmd.Stdin, cmd.Stderr = in, os.Stderr
		h.mu.Lock()
		defer h.mu.Unlock()
		h.pid = append(h.pid, cmd)
		return cmd
	}}
	go func() { h.ended <- holder.Run(ctx) }()
	h.awaitMount(t)
	t.Cleanup(func() {
		_ = stdin.Close()
		_ = in.Close()
	})
	return h
}

func (h *heldMount) awaitMount(t *testing.T) {
	t.Helper()
	require.Eventually(t, func() bool { _, ok := mountedAt(h.role.Dir); return ok }, 20*time.Second, 5*time.Millisecond)
	_, err := os.Stat(h.role.Dir)
	require.NoError(t, err)
}

// kill kills the daemon that serves, and gives how many there were.
func (h *heldMount) kill(t *testing.T) int {
	t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	require.NoError(t, h.pid[len(h.pid)-1].Process.Kill())
	return len(h.pid)
}

func (h *heldMount) started() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.pid)
}

// A daemon that is killed is replaced: programs go on, and locks hold.
func TestKilledDaemon(t *testing.T) {
	h := holdHere(t, t.Context(), role{})
	other := mountOf(t, h.Network)
	f, err := os.Create(h.path("f"))
	require.NoError(t, err)
	require.NoError(t, flock(f, unix.LOCK_EX))
	require.Eventually(t, func() bool { _, err := os.Stat(other.path("f")); return err == nil }, 10*time.Second, 10*time.Millisecond)
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
	require.Equal(t, 4, h.started())
	var total int
	content, err := os.ReadFile(h.path("counter"))
	require.NoError(t, err)
	_, err = fmt.Sscan(string(content), &total)
	require.NoError(t, err)
	require.Equal(t, counted[0]+counted[1], total, "nobody counted without the lock")
	require.Equal(t, unix.EWOULDBLOCK, flock(rival, unix.LOCK_EX|unix.LOCK_NB))
	require.NoError(t, f.Close())
	require.NoError(t, inTime(t, func() error { return flock(rival, unix.LOCK_EX) }))
	require.NoError(t, h.stdin.Close())
	require.NoError(t, inTime(t, func() error { return <-h.ended }))
	_, ok := mountedAt(h.role.Dir)
	require.False(t, ok)
}

// When no daemon lives, the mount goes, so that nobody hangs.
func TestDaemonsThatDie(t *testing.T) {
	h := holdHere(t, t.Context(), role{FailAt: "successor"})
	require.NoError(t, os.WriteFile(h.path("f"), []byte("x"), 0o644))
	h.kill(t)
	err := inTime(t, func() error { return <-h.ended })
	require.ErrorIs(t, err, ErrGivenUp)
	require.ErrorContains(t, err, "it died 5 times")
	_, ok := mountedAt(h.role.Dir)
	require.False(t, ok)
	require.Equal(t, maxQuick, h.started())
}

// A successor takes the mount of a daemon with a holder: that ends without doing anything to the mount.
func TestHandoverFromAHeldDaemon(t *testing.T) {
	h := holdHere(t, t.Context(), role{})
	require.NoError(t, os.WriteFile(h.path("f"), []byte("x"), 0o644))
	require.Eventually(t, func() bool { _, err := os.Stat(h.role.Socket); return err == nil }, 10*time.Second, 5*time.Millisecond)
	r := h.role
	r.Take = true
	next, err := start(t, r)
	require.NoError(t, err)
	require.NoError(t, inTime(t, func() error { return <-h.ended }))
	content, err := os.ReadFile(h.path("f"))
	require.NoError(t, err)
	require.Equal(t, "x", string(content))
	require.NoError(t, next.stdin.Close())
	require.NoError(t, next.wait(t))
}
