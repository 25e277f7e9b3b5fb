package cluster

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/globalfs/globalfs/internal/mount/serve"
)

// A mount that holds directories is killed at any moment, again and again. All that it has answered is there
// once its log holder has ended, once: names, attributes, and the content of closed files.
func TestKilledMount(t *testing.T) {
	t.Parallel()
	c := start(t)
	dir, other := t.TempDir(), t.TempDir()
	c.delegating(t, dir)
	c.watching(t, other)
	carried := 0
	for round := range 6 {
		if round > 0 {
			c.delegating(t, dir)
		}
		w := &killedWorker{dir: filepath.Join(dir, fmt.Sprint("t", round)), files: map[string]string{}}
		require.NoError(t, os.Mkdir(w.dir, 0o755))
		require.Positive(t, holding(t, dir).Directories)
		pid := holding(t, dir).PID
		killed := make(chan error, 1)
		for w.step() == nil {
			if w.steps == 20 {
				time.AfterFunc(time.Duration(rand.IntN(300))*time.Millisecond, func() { killed <- unix.Kill(pid, unix.SIGKILL) })
			}
		}
		require.GreaterOrEqual(t, w.steps, 20)
		require.NoError(t, <-killed)
		require.NoError(t, serve.AwaitLogs(t.Context(), dir, func(s serve.LogStatus) { carried += s.Changes }))
		require.NoError(t, unix.Unmount(dir, unix.MNT_DETACH), "the dead mount")
		w.check(t, filepath.Join(other, fmt.Sprint("t", round)))
	}
	require.Positive(t, carried, "no process died with changes that were not ordered: the test shows nothing")
	t.Logf("%d changes were answered by mounts that were killed, and ordered by their log holders", carried)
	require.Empty(t, serve.Logs(t.Context(), dir))
}

// killedWorker changes files, and knows the expected state of the directory.
type killedWorker struct {
	dir   string
	files map[string]string // content by name
	steps int
	doing []string // names that the operation under way touches
}

// step does the next operation.
func (w *killedWorker) step() error {
	name := fmt.Sprint("f", w.steps)
	w.steps++
	content := fmt.Sprintf("%0*d", 1+w.steps%7*2000, w.steps) // some are too large for the metadata
	w.doing = []string{name}
	if err := os.WriteFile(filepath.Join(w.dir, name), []byte(content), 0o600); err != nil {
		return err
	}
	w.files[name] = content
	switch w.steps % 4 {
	case 0:
		w.doing = []string{name, name + ".new"}
		if err := os.Rename(filepath.Join(w.dir, name), filepath.Join(w.dir, name+".new")); err != nil {
			return err
		}
		delete(w.files, name)
		w.files[name+".new"] = content
	case 1: // one that is done twice would show
		f, err := os.OpenFile(filepath.Join(w.dir, name), os.O_WRONLY|os.O_APPEND, 0)
		if err != nil {
			return err
		}
		_, err = f.WriteString("more")
		if closed := f.Close(); err != nil || closed != nil {
			return fmt.Errorf("%w, %w", err, closed)
		}
		w.files[name] = content + "more"
	case 2:
		if err := os.Remove(filepath.Join(w.dir, name)); err != nil {
			return err
		}
		delete(w.files, name)
	}
	w.doing = nil
	return nil
}

// check compares the directory with the expected state. The last operation, which was not answered, may be
// executed or not.
func (w *killedWorker) check(t *testing.T, dir string) {
	t.Helper()
	all, err := os.ReadDir(dir)
	require.NoError(t, err)
	found := map[string]string{}
	for _, e := range all {
		content, err := os.ReadFile(filepath.Join(dir, e.Name()))
		require.NoError(t, err)
		info, err := e.Info()
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), info.Mode())
		found[e.Name()] = string(content)
	}
	for _, name := range w.doing {
		delete(found, name)
		delete(w.files, name)
	}
	require.Equal(t, slices.Sorted(maps.Keys(w.files)), slices.Sorted(maps.Keys(found)))
	for name, content := range w.files {
		require.Equal(t, content, found[name], name)
	}
}

// delegating mounts east in the background, with --delegate.
func (c *Cluster) delegating(t *testing.T, dir string, flags ...string) {
	t.Helper()
	c.background(t, dir, append(flags, "--delegate")...)
}

// watching mounts east without.
func (c *Cluster) watching(t *testing.T, dir string) { c.background(t, dir) }

func (c *Cluster) background(t *testing.T, dir string, flags ...string) {
	t.Helper()
	args := []string{"mount", c.Address("easta") + ":/east", dir, "--certs", c.Certs(), "--region", "east"}
	code, said := c.ranAs(t, "globalfs", append(args, flags...)...)
	require.Zero(t, code, said)
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_FORCE|unix.MNT_DETACH) }) // of a failed test
}

// signal sends a signal to all servers.
func (c *Cluster) signal(s syscall.Signal) {
	for _, server := range c.Servers {
		server.Signal(s)
	}
}

// gone reports whether a process has ended. Its parent may not have waited for it yet.
func gone(pid int) bool {
	line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	return err != nil || len(line) == 0
}

// The servers are silent while a mount ends. It ends all the same, and its log holder orders what it has
// answered when they are back. A later mount at the place waits for that.
func TestLogHolder(t *testing.T) {
	t.Parallel()
	c := start(t)
	for name, end := range map[string]func(dir string, pid int) error{
		"SIGTERM":   func(_ string, pid int) error { return unix.Kill(pid, unix.SIGTERM) },
		"umount(8)": func(dir string, _ int) error { return unix.Unmount(dir, 0) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			c.delegating(t, dir)
			top := filepath.Join(dir, "silent "+name)
			require.NoError(t, os.Mkdir(top, 0o755))
			require.NoError(t, os.WriteFile(filepath.Join(top, "before"), nil, 0o644))
			h := holding(t, dir)
			require.Positive(t, h.Directories)
			logs := serve.Logs(t.Context(), dir)
			require.Len(t, logs, 1)
			require.False(t, logs[0].Ends)

			held, err := os.OpenRoot(top) // the way to it is not held
			require.NoError(t, err)
			c.signal(unix.SIGSTOP)
			defer c.signal(unix.SIGCONT)
			for i := range 20 {
				require.NoError(t, held.WriteFile(fmt.Sprint(i), []byte(fmt.Sprint("content ", i)), 0o600))
			}
			require.NoError(t, held.Close())
			began := time.Now()
			require.NoError(t, end(dir, h.PID))
			require.Eventually(t, func() bool { return gone(h.PID) }, 45*time.Second, 10*time.Millisecond, "the mount ends in its usual time")
			t.Logf("the mount ended after %v", time.Since(began))
			require.Error(t, mounted(dir))
			require.Eventually(t, func() bool {
				kept := serve.Logs(t.Context(), dir)
				return len(kept) == 1 && kept[0].PID == logs[0].PID && kept[0].Changes >= 20
			}, 10*time.Second, 10*time.Millisecond)

			_, said := c.ranAs(t, "globalfs", "info", dir)
			require.Contains(t, said, fmt.Sprintf("process %d orders", logs[0].PID))
			require.NoError(t, unix.Kill(logs[0].PID, unix.SIGSTOP))
			c.signal(unix.SIGCONT)
			waiting := make(chan string, 1)
			go func() {
				_, said := c.ranAs(t, "globalfs", "mount", c.Address("easta")+":/east", dir, "--certs", c.Certs(), "--region", "east", "--delegate")
				waiting <- said
			}()
			select {
			case said := <-waiting:
				require.Fail(t, "a mount at the place waits", said)
			case <-time.After(3 * time.Second):
			}
			require.Error(t, mounted(dir))
			require.NoError(t, unix.Kill(logs[0].PID, unix.SIGCONT))
			require.Contains(t, <-waiting, "waiting until the changes of an earlier mount")
			require.NoError(t, mounted(dir))
			for i := range 20 {
				content, err := os.ReadFile(filepath.Join(top, fmt.Sprint(i)))
				require.NoError(t, err)
				require.Equal(t, fmt.Sprint("content ", i), string(content))
			}
			require.Eventually(t, func() bool { return gone(logs[0].PID) }, 10*time.Second, 10*time.Millisecond)
			_, said = c.ranAs(t, "globalfs", "info", dir)
			require.Regexp(t, `process \d+ has the log of this mount`, said)
			code, said := c.ranAs(t, "globalfs", "umount", dir)
			require.Zero(t, code, said)
			require.Eventually(t, func() bool { return len(serve.Logs(t.Context(), dir)) == 0 }, 10*time.Second, 10*time.Millisecond)
		})
	}
}

// The log holder dies, and so do both processes.
func TestLogHolderDies(t *testing.T) {
	t.Parallel()
	c := start(t)
	dir, other := t.TempDir(), t.TempDir()
	c.delegating(t, dir)
	c.watching(t, other)
	holder := func() (pid int) {
		require.Eventually(t, func() bool {
			logs := serve.Logs(t.Context(), dir)
			if len(logs) == 1 {
				pid = logs[0].PID
			}
			return len(logs) == 1
		}, 20*time.Second, 10*time.Millisecond)
		return pid
	}

	// The mount starts another one, which knows the log.
	top := filepath.Join(dir, "a")
	require.NoError(t, os.Mkdir(top, 0o755))
	first := holder()
	require.NoError(t, unix.Kill(first, unix.SIGKILL))
	require.Eventually(t, func() bool { return gone(first) }, 10*time.Second, time.Millisecond)
	require.NotEqual(t, first, holder())
	for i := range 100 {
		require.NoError(t, os.WriteFile(filepath.Join(top, fmt.Sprint(i)), nil, 0o644))
	}
	require.NoError(t, unix.Kill(holding(t, dir).PID, unix.SIGKILL))
	require.NoError(t, serve.AwaitLogs(t.Context(), dir, func(serve.LogStatus) {}))
	require.NoError(t, unix.Unmount(dir, unix.MNT_DETACH))
	for i := range 100 {
		_, err := os.Stat(filepath.Join(other, "a", fmt.Sprint(i)))
		require.NoError(t, err)
	}

	// Without both the last changes are lost, and only these.
	c.delegating(t, dir)
	top = filepath.Join(dir, "b")
	require.NoError(t, os.Mkdir(top, 0o755))
	mount, log := holding(t, dir).PID, holder()
	require.NoError(t, unix.Kill(mount, unix.SIGSTOP))
	require.NoError(t, unix.Kill(log, unix.SIGKILL)) // the mount does not start another
	require.NoError(t, unix.Kill(mount, unix.SIGCONT))
	made := 0
	for ; made < 200; made++ {
		require.NoError(t, os.WriteFile(filepath.Join(top, fmt.Sprintf("%03d", made)), nil, 0o644))
	}
	last := holder()
	require.NoError(t, unix.Kill(mount, unix.SIGSTOP))
	require.NoError(t, unix.Kill(last, unix.SIGKILL))
	require.NoError(t, unix.Kill(mount, unix.SIGKILL))
	require.Eventually(t, func() bool { return gone(mount) && gone(last) }, 10*time.Second, time.Millisecond)
	require.NoError(t, unix.Unmount(dir, unix.MNT_DETACH))
	c.delegating(t, dir) // it waits for nothing
	all, err := os.ReadDir(filepath.Join(dir, "b"))
	require.NoError(t, err)
	t.Logf("%d of %d files are left", len(all), made)
	for i, e := range all {
		require.Equal(t, fmt.Sprintf("%03d", i), e.Name(), "what is left is a prefix")
	}
	// The dead mount holds the directory until its session ends.
	require.Eventually(t, func() bool { return os.WriteFile(filepath.Join(dir, "b", "new"), []byte("x"), 0o644) == nil }, 2*time.Minute, time.Second)
	require.NoError(t, os.RemoveAll(filepath.Join(dir, "b")))
	code, said := c.ranAs(t, "globalfs", "umount", dir)
	require.Zero(t, code, said)
}

// Ctrl-C ends a mount in the foreground, with its log holder. This one has no descriptor of the terminal or
// the mount.
func TestLogHolderAfterCtrlC(t *testing.T) {
	t.Parallel()
	c := start(t)
	dir := t.TempDir()
	m, err := c.Mount(t.Context(), "east", "", dir, "--delegate")
	require.NoError(t, err)
	top := filepath.Join(dir, "east", "d")
	require.NoError(t, os.Mkdir(top, 0o755))
	for i := range 100 {
		require.NoError(t, os.WriteFile(filepath.Join(top, fmt.Sprint(i)), nil, 0o644))
	}
	logs := serve.Logs(t.Context(), dir)
	require.Len(t, logs, 1)
	own, err := unix.Getsid(logs[0].PID)
	require.NoError(t, err)
	require.Equal(t, logs[0].PID, own, "no signal of the terminal reaches it")
	descriptors, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", logs[0].PID))
	require.NoError(t, err)
	for _, fd := range descriptors {
		to, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/%s", logs[0].PID, fd.Name()))
		require.NoError(t, err)
		require.NotContains(t, to, dir)
		require.NotContains(t, to, m.Log)
		require.NotContains(t, to, "/dev/fuse")
		require.NotContains(t, to, "pipe:")
	}
	at, err := os.Readlink(fmt.Sprintf("/proc/%d/cwd", logs[0].PID))
	require.NoError(t, err)
	require.Equal(t, "/", at)
	m.Signal(syscall.SIGINT)
	require.True(t, m.await(patience))
	require.Error(t, mounted(dir))
	require.True(t, gone(logs[0].PID), "a mount that has ordered all waits for the end of its log holder: %s", Tail(m.Log, 4000))
}
