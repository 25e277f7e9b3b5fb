package mount

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/hanwen/go-fuse/v2/posixtest"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/globalfs/globalfs/internal/client"
	"github.com/globalfs/globalfs/internal/client/clienttest"
	"github.com/globalfs/globalfs/internal/mount/mountpoint"
	"github.com/globalfs/globalfs/internal/mount/serve"
	"github.com/globalfs/globalfs/internal/topology"
)

var spec = topology.Spec{Regions: []topology.Region{"us-west-2", "us-east-1"}, Datacenters: 1, Replicas: 1, Copies: 1}

// mounted is a real mount over a cluster in memory.
type mounted struct {
	*clienttest.Network
	client *client.Client
	mount  *serve.Mount
	dir    string
}

// mountHere mounts for the length of the test, or skips the test where mounts are not possible.
func mountHere(t *testing.T) *mounted {
	t.Helper()
	return mountOf(t, clienttest.New(t, spec, time.Minute))
}

func mountOf(t *testing.T, n *clienttest.Network) *mounted {
	t.Helper()
	return mountAs(t, n, func(*Config) {})
}

// mountAs is mountOf with another configuration.
func mountAs(t *testing.T, n *clienttest.Network, change func(*Config)) *mounted {
	t.Helper()
	if err := mountpoint.CheckDevice("here"); err != nil || os.Geteuid() != 0 {
		t.Skipf("a mount needs root and /dev/fuse: %v", err)
	}
	of := n.Config("us-west-2")
	of.CacheNames = true
	c, err := client.New(of)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	dir := t.TempDir()
	require.NoError(t, os.Chmod(filepath.Dir(dir), 0o755)) // others may pass
	cfg := Config{Client: c, Dir: dir}
	change(&cfg)
	m, err := New(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, m.Unmount()) })
	return &mounted{n, c, m, dir}
}

func (m *mounted) path(name string) string { return filepath.Join(m.dir, name) }

func (m *mounted) write(t *testing.T, name, content string) {
	t.Helper()
	require.NoError(t, os.WriteFile(m.path(name), []byte(content), 0o644))
}

func (m *mounted) read(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(m.path(name))
	require.NoError(t, err)
	return string(b)
}

// awaitContent waits until a file that another mount has written has some content here.
func (m *mounted) awaitContent(t *testing.T, name, content string) {
	t.Helper()
	require.Eventually(t, func() bool {
		b, err := os.ReadFile(m.path(name))
		return err == nil && string(b) == content
	}, 30*time.Second, time.Millisecond, name)
}

func (m *mounted) stat(t *testing.T, name string) (st unix.Stat_t) {
	t.Helper()
	require.NoError(t, unix.Lstat(m.path(name), &st))
	return st
}

func TestPosix(t *testing.T) { mountHere(t).runPosix(t) }

// runPosix runs go-fuse's own suite.
func (m *mounted) runPosix(t *testing.T) {
	for name, test := range posixtest.All {
		t.Run(name, func(t *testing.T) {
			switch name {
			case "FcntlFlockLocksFile":
				t.Skip("by design: it expects what Linux does not do, as go-fuse says")
			case "Tmpfile":
				t.Skip("by design: there is no O_TMPFILE")
			}
			dir := m.path(name)
			require.NoError(t, os.Mkdir(dir, 0o755))
			test(t, dir)
		})
	}
}

func TestErrorsSayWhatToDo(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	require.NoError(t, os.WriteFile(file, nil, 0o644))
	for path, want := range map[string]string{
		filepath.Join(dir, "none"): "make it with 'mkdir -p",
		file:                       "not a directory",
		"/proc":                    "busy: a file system (proc) is mounted there",
	} {
		_, err := New(Config{Dir: path})
		require.ErrorContains(t, err, want)
	}
}

func TestUnmountOfABusyMount(t *testing.T) {
	m := mountHere(t)
	m.write(t, "f", "x")
	// Another process has it open: in this one, fork and exec would close the file while the runtime
	// is stopped, and wait for the mount.
	user := exec.Command("sh", "-c", `exec 3<"$0"; echo open; read line; cat <&3`, m.path("f"))
	in, err := user.StdinPipe()
	require.NoError(t, err)
	out, err := user.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, user.Start())
	_, err = io.ReadFull(out, make([]byte, len("open\n")))
	require.NoError(t, err)
	require.NoError(t, m.mount.Unmount())
	m.mount.Wait()
	_, ok := mountpoint.At(m.dir)
	require.False(t, ok)
	require.NoError(t, in.Close())
	require.Error(t, user.Wait(), "its file fails")
	require.NoError(t, m.mount.Unmount(), "again")
}

func TestUnmountFromOutside(t *testing.T) {
	m := mountHere(t)
	require.NoError(t, unix.Unmount(m.dir, 0))
	m.mount.Wait()
	require.NoError(t, m.mount.Unmount())
}

// A request that cannot be served fails in time, and a signal ends a wait.
func TestNothingHangs(t *testing.T) {
	n := clienttest.New(t, spec, time.Minute)
	m := mountOf(t, n)
	m.write(t, "f", "x")
	replicas := n.Processes(0, "us-west-2")
	n.Fail(clienttest.Silent, replicas...)
	defer n.Fail(clienttest.None, replicas...)
	before := n.Calls(replicas...)
	child := exec.Command("cat", m.path("g"))
	require.NoError(t, child.Start())
	n.AwaitCalls(before+1, replicas...)
	start := time.Now()
	require.NoError(t, child.Process.Kill())
	require.Error(t, child.Wait())
	require.Less(t, time.Since(start), 2*patience)
}

// A program that handles a signal does not notice it in a request that waits, as on a local disk.
func TestHandledSignalsInterruptNothing(t *testing.T) {
	n := clienttest.New(t, spec, time.Minute)
	m := mountOf(t, n)
	replicas := n.Processes(0, "us-west-2")
	n.Fail(clienttest.Silent, replicas...)
	before := n.Calls(replicas...)
	tid, ended := make(chan int, 1), make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		tid <- unix.Gettid()
		ended <- unix.Access(m.path("f"), unix.F_OK)
	}()
	thread := <-tid
	n.AwaitCalls(before+1, replicas...)
	require.NoError(t, unix.Tgkill(unix.Getpid(), thread, unix.SIGURG), "Go's runtime handles it")
	select {
	case err := <-ended:
		require.Fail(t, "it was interrupted", "%v", err)
	case <-time.After(2 * patience):
	}
	n.Fail(clienttest.None, replicas...)
	require.Equal(t, unix.ENOENT, inTime(t, func() error { return <-ended }))
}
