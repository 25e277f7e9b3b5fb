package mount

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/globalfs/globalfs/internal/client"
	"github.com/globalfs/globalfs/internal/client/clienttest"
	"github.com/globalfs/globalfs/internal/mount/serve"
)

// work is a set of programs that use a mount all the time and report unexpected results.
type work struct {
	running sync.WaitGroup
	stop    atomic.Bool
	steps   atomic.Int64
	failed  chan error
}

func (w *work) repeat(do func(i int) error) {
	w.running.Go(func() {
		for i := 0; !w.stop.Load(); i++ {
			if err := do(i); err != nil {
				select {
				case w.failed <- err:
				default:
				}
				return
			}
			w.steps.Add(1)
		}
	})
}

// more waits until the programs have made progress.
func (w *work) more(t *testing.T) {
	t.Helper()
	before := w.steps.Load()
	require.Eventually(t, func() bool { return w.steps.Load() > before+20 || len(w.failed) > 0 }, 30*time.Second, time.Millisecond)
}

func (w *work) end(t *testing.T) {
	t.Helper()
	w.stop.Store(true)
	w.running.Wait()
	select {
	case err := <-w.failed:
		require.NoError(t, err)
	default:
	}
}

// begin begins to write, append, read, list, make and remove, and lock.
func (s *served) begin(t *testing.T) *work {
	require.NoError(t, os.MkdirAll(s.path("many"), 0o755))
	for i := range 300 {
		require.NoError(t, os.WriteFile(s.path(fmt.Sprintf("many/%d", i)), nil, 0o644))
	}
	w := &work{failed: make(chan error, 1)}
	w.repeat(func(i int) error { return s.rewrite("rewritten", i) })
	w.repeat(func(i int) error { return s.makeAndRemove(fmt.Sprintf("d%d", i)) })
	log, err := os.OpenFile(s.path("log"), os.O_CREATE|os.O_APPEND|os.O_RDWR, 0o644)
	require.NoError(t, err)
	t.Cleanup(func() { _ = log.Close() })
	w.repeat(func(i int) error { _, err := fmt.Fprintf(log, "%08d\n", i); return err })
	w.repeat(func(int) error { return s.list("many", 300) })
	for range 2 {
		w.repeat(func(int) error { return s.count("counter") })
	}
	return w
}

// rewrite writes a file of blocks and reads it again.
func (s *served) rewrite(name string, i int) error {
	want := strings.Repeat(fmt.Sprintf("%016d", i), 1<<12)
	if err := os.WriteFile(s.path(name), []byte(want), 0o644); err != nil {
		return err
	}
	got, err := os.ReadFile(s.path(name))
	if err == nil && string(got) != want {
		err = fmt.Errorf("%s in round %d: %d bytes that differ", name, i, len(got))
	}
	return err
}

// makeAndRemove makes and removes a directory, operations that must be executed exactly once.
func (s *served) makeAndRemove(name string) error {
	if err := os.Mkdir(s.path(name), 0o755); err != nil {
		return err
	}
	if err := os.Rename(s.path(name), s.path(name+"x")); err != nil {
		return err
	}
	return os.Remove(s.path(name + "x"))
}

func (s *served) list(name string, want int) error {
	entries, err := os.ReadDir(s.path(name))
	if err == nil && len(entries) != want {
		err = fmt.Errorf("%s has %d entries", name, len(entries))
	}
	return err
}

// count adds one to a number in a file, under a lock that it waits for.
func (s *served) count(name string) error {
	f, err := os.OpenFile(s.path(name), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		return fmt.Errorf("flock: %w", err)
	}
	var n int
	_, _ = fmt.Fscan(f, &n)
	_, err = f.WriteAt(fmt.Appendf(nil, "%d ", n+1), 0)
	return err
}

func TestHandoverUnderLoad(t *testing.T) {
	s := serveHere(t, role{})
	keep, err := os.Create(s.path("unlinked"))
	require.NoError(t, err)
	defer keep.Close()
	_, err = keep.WriteString("still here")
	require.NoError(t, err)
	require.NoError(t, os.Remove(s.path("unlinked")))
	w := s.begin(t)
	for range 20 {
		w.more(t)
		s.succeed(t)
	}
	w.more(t)
	w.end(t)
	content := make([]byte, 10)
	_, err = keep.ReadAt(content, 0)
	require.NoError(t, err)
	require.Equal(t, "still here", string(content))
	log, err := os.ReadFile(s.path("log"))
	require.NoError(t, err)
	for i, line := range strings.Split(strings.TrimSpace(string(log)), "\n") {
		require.Equal(t, fmt.Sprintf("%08d", i), line)
	}
}

// Locks of both kinds hold against another mount, before and after, and waits for a lock continue.
func TestLocksSurviveAHandover(t *testing.T) {
	s := serveHere(t, role{})
	other := mountOf(t, s.Network)
	require.NoError(t, os.WriteFile(s.path("f"), nil, 0o644))
	require.Eventually(t, func() bool { _, err := os.Stat(other.path("f")); return err == nil }, 30*time.Second, 10*time.Millisecond)
	f, err := os.OpenFile(s.path("f"), os.O_RDWR, 0)
	require.NoError(t, err)
	require.NoError(t, flock(f, unix.LOCK_EX))
	all := unix.Flock_t{Type: unix.F_WRLCK}
	require.NoError(t, unix.FcntlFlock(f.Fd(), unix.F_SETLK, &all))
	rival := other.open(t, "f")
	waiter, err := os.OpenFile(s.path("f"), os.O_RDWR, 0)
	require.NoError(t, err)
	defer waiter.Close()
	got := make(chan error, 1)
	go func() { got <- flock(waiter, unix.LOCK_EX) }()
	inKernel(t, s.daemon)
	for range 3 {
		require.Equal(t, unix.EWOULDBLOCK, flock(rival, unix.LOCK_EX|unix.LOCK_NB))
		require.ErrorIs(t, unix.FcntlFlock(rival.Fd(), unix.F_SETLK, &all), unix.EAGAIN)
		s.succeed(t)
		require.Empty(t, got)
	}
	require.Equal(t, unix.EWOULDBLOCK, flock(rival, unix.LOCK_EX|unix.LOCK_NB))
	require.NoError(t, f.Close())
	require.NoError(t, inTime(t, func() error { return <-got }), "its turn")
	require.Equal(t, unix.EWOULDBLOCK, flock(rival, unix.LOCK_EX|unix.LOCK_NB))
	require.NoError(t, inTime(t, func() error { return unix.FcntlFlock(rival.Fd(), unix.F_SETLKW, &all) }))
	require.NoError(t, waiter.Close())
	require.NoError(t, inTime(t, func() error { return flock(rival, unix.LOCK_EX) }))
}

// inKernel waits until the kernel has asked the daemon for a lock that it does not get.
func inKernel(t *testing.T, d *daemon) {
	t.Helper()
	require.Eventually(t, func() bool {
		tasks, _ := filepath.Glob("/proc/self/task/*/wchan")
		for _, task := range tasks {
			if where, _ := os.ReadFile(task); strings.Contains(string(where), "request_wait_answer") {
				return true
			}
		}
		return false
	}, 30*time.Second, time.Millisecond)
}

// The failure of a successor does not affect the mount.
func TestFailedSuccessors(t *testing.T) {
	for _, at := range []string{"exit", "close", "terms", "ready"} {
		t.Run(at, func(t *testing.T) {
			s := serveHere(t, role{})
			w := s.begin(t)
			for range 3 {
				w.more(t)
				r := s.role
				r.Take, r.FailAt = true, at
				_, err := start(t, r)
				require.Error(t, err)
			}
			w.more(t)
			s.succeed(t)
			w.more(t)
			w.end(t)
		})
	}
}

// A request that changes something and has no answer is not abandoned: the mount stays with its process.
func TestHandoverWithoutACluster(t *testing.T) {
	n := clienttest.New(t, spec, time.Minute)
	m := mountOf(t, n)
	m.write(t, "f", "x")
	writer, write := writerOf(t, m.path("f"))
	replicas := n.Processes(0, "us-west-2")
	n.Fail(clienttest.Silent, replicas...)
	before := n.Calls(replicas...)
	write()
	n.AwaitCalls(before+1, replicas...)
	reader := exec.Command("cat", m.path("g"))
	require.NoError(t, reader.Start())
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	_, err := m.mount.Handover(ctx)
	require.ErrorIs(t, err, serve.ErrBusy)
	n.Fail(clienttest.None, replicas...)
	require.NoError(t, writer.Wait())
	require.Error(t, reader.Wait(), "there is no such file")
	require.Equal(t, "xy\n", m.read(t, "f"))
	handed, err := m.mount.Handover(t.Context())
	require.NoError(t, err)
	_, err = m.mount.Handover(t.Context())
	require.ErrorContains(t, err, "already")
	of, err := ClientState(handed)
	require.NoError(t, err)
	require.NotEmpty(t, of.Partitions)
	require.NoError(t, handed.Close())
	require.NoError(t, m.mount.TakeBack(false))
	require.Equal(t, "xy\n", m.read(t, "f"))
}

// writerOf starts a program that has a file open, and appends a line to it on each call of write.
func writerOf(t *testing.T, path string) (program *exec.Cmd, write func()) {
	t.Helper()
	program = exec.Command("sh", "-c", `exec 3>>"$0" && echo open && { read line; echo y >&3; }`, path)
	in, err := program.StdinPipe()
	require.NoError(t, err)
	out, err := program.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, program.Start())
	_, err = io.ReadFull(out, make([]byte, len("open\n")))
	require.NoError(t, err)
	return program, func() { require.NoError(t, in.Close()) }
}

func TestNobodyOffersAMount(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "s")
	_, err := serve.RequestHandover(t.Context(), socket)
	require.ErrorIs(t, err, serve.ErrNobody)
	stale, err := unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET, 0)
	require.NoError(t, err)
	require.NoError(t, unix.Bind(stale, &unix.SockaddrUnix{Name: socket}))
	require.NoError(t, unix.Close(stale))
	_, err = serve.RequestHandover(t.Context(), socket)
	require.ErrorIs(t, err, serve.ErrNobody)
}

func TestStateThatCannotBeTaken(t *testing.T) {
	for state, want := range map[string]string{
		`{"format":99}`: "format 99, this version knows 1 and 2: unmount",
		`{"format":2}`:  "no root",
		`x`:             "mount state",
		`{"format":1}`:  "no terms",
		`{"format":1,"files":9000000000000000000}`: "file 9000000000000000000",
	} {
		_, err := Take(Config{}, &serve.Handed{State: []byte(state)})
		require.ErrorContains(t, err, want)
	}
	_, err := client.DecodeState([]byte(`{"format":99}`))
	require.ErrorContains(t, err, "format 99, this version knows 3: unmount")
}
