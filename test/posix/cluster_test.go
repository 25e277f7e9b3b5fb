package posix

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/test/logged"
	"github.com/globalfs/globalfs/test/program"
)

// The two regions of the default cluster with mounts of the tests.
const (
	near = "us-west-2"
	far  = "eu-west-1"
)

// delegate runs the tests with mounts that hold the directories that they make.
var delegate = flag.Bool("posix.delegate", false, "mount with --delegate")

// Time limits that only a hang exceeds.
const (
	startTime   = 60 * time.Second
	stopTime    = 30 * time.Second
	commandTime = 30 * time.Minute
)

func TestMain(m *testing.M) { os.Exit(program.Main(m)) }

// requireMount skips tests on machines that cannot mount.
func requireMount(t *testing.T) {
	t.Helper()
	if _, err := os.Stat("/dev/fuse"); err != nil {
		t.Skip("needs /dev/fuse: ", err)
	}
	if os.Getuid() != 0 {
		t.Skip("needs root, to act as other users and to unmount what a killed process left")
	}
}

// cluster is one run of `globalfs dev` with a mount in each of two regions.
type cluster struct {
	t       *testing.T
	dir     string // with the data between runs
	flags   []string
	mounts  map[string]string
	process *os.Process
	ended   chan error // the result of the process
	output  logged.Text
}

// startCluster starts the binary on a new data directory and waits until it is ready. At the end of the test
// it is stopped with SIGINT, like Ctrl-C, and must have unmounted.
func startCluster(t *testing.T) *cluster {
	t.Helper()
	requireMount(t)
	return startClusterIn(t, shortDir(t))
}

// startClusterIn is startCluster with the data below a directory, and more flags.
func startClusterIn(t *testing.T, base string, flags ...string) *cluster {
	t.Helper()
	c := &cluster{t: t, dir: filepath.Join(base, "data"), flags: flags, mounts: map[string]string{}}
	for i, region := range []string{near, far} {
		c.mounts[region] = filepath.Join(base, fmt.Sprint(i))
	}
	t.Cleanup(func() {
		if c.process != nil {
			c.stop()
		}
		if t.Failed() {
			t.Logf("globalfs dev said:\n%s", c.output.Tail(60))
		}
	})
	c.start()
	return c
}

// shortDir returns a temporary directory for the test programs: all users may enter it, and its path is
// short, because the path of a Unix socket has at most 107 bytes.
func shortDir(t *testing.T) string {
	dir, err := os.MkdirTemp("", "gfs")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	require.NoError(t, os.Chmod(dir, 0o755))
	return dir
}

// in returns a path on the mount in a region.
func (c *cluster) in(region string, parts ...string) string {
	return filepath.Join(append([]string{c.mounts[region]}, parts...)...)
}

func (c *cluster) start() {
	c.t.Helper()
	path := program.Path(c.t)
	args := append([]string{"dev", "--durability", "os", "--data-dir", c.dir}, c.flags...) // c.flags override
	if *delegate {
		args = append(args, "--delegate")
	}
	for _, region := range []string{near, far} {
		args = append(args, "--mount", region+"="+c.mounts[region])
	}
	ready, started := make(chan struct{}), make(chan error)
	c.ended = make(chan error, 1)
	go c.run(exec.Command(path, args...), started, ready)
	require.NoError(c.t, <-started)
	select {
	case <-ready:
	case err := <-c.ended:
		c.process = nil
		require.Fail(c.t, "ended before it was ready", "%v", err)
	case <-time.After(startTime):
		require.Fail(c.t, "not ready", "after %v", startTime)
	}
}

// run starts the process and waits for its end. It has its own thread: the kernel kills the process when the
// thread that started it ends, so that a test that times out leaves nothing behind.
func (c *cluster) run(cmd *exec.Cmd, started chan<- error, ready chan<- struct{}) {
	runtime.LockOSThread()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.Stderr = &c.output
	stdout, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		started <- err
		return
	}
	c.process = cmd.Process
	started <- nil
	for lines := bufio.NewScanner(stdout); lines.Scan(); {
		fmt.Fprintln(&c.output, lines.Text())
		if strings.HasPrefix(lines.Text(), "ready:") {
			close(ready)
		}
	}
	c.ended <- cmd.Wait()
}

// stop ends the process like Ctrl-C. The process must unmount and exit with 0.
func (c *cluster) stop() {
	c.t.Helper()
	require.NoError(c.t, c.process.Signal(os.Interrupt))
	c.process = nil
	defer c.unmount()
	select {
	case err := <-c.ended:
		require.NoError(c.t, err)
	case <-time.After(stopTime):
		require.Fail(c.t, "still running", "%v after SIGINT", stopTime)
	}
	for _, dir := range c.mounts {
		require.False(c.t, mounted(c.t, dir), "%s is still mounted", dir)
	}
}

// kill ends the process with SIGKILL, and detaches the remaining mounts.
func (c *cluster) kill() {
	c.t.Helper()
	require.NoError(c.t, c.process.Kill())
	c.process = nil
	require.Error(c.t, <-c.ended)
	c.unmount()
}

func (c *cluster) unmount() {
	for _, dir := range c.mounts {
		for mounted(c.t, dir) {
			require.NoError(c.t, syscall.Unmount(dir, syscall.MNT_DETACH))
		}
	}
}

func mounted(t *testing.T, dir string) bool {
	table, err := os.ReadFile("/proc/self/mounts")
	require.NoError(t, err)
	return bytes.Contains(table, []byte(" "+dir+" "))
}

// command runs a program with a time limit and returns its output.
func command(t *testing.T, dir, name string, args ...string) (string, error) {
	t.Helper()
	return commandWith(t, nil, dir, name, args...)
}

// commandWith is command with more variables in the environment.
func commandWith(t *testing.T, env []string, dir, name string, args ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), commandTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	cmd.Env = append(append(os.Environ(), "NO_COLOR=1", "LC_ALL=C"), env...)
	cmd.WaitDelay = time.Second // for grandchildren that keep its output open
	out, err := cmd.CombinedOutput()
	if ctx.Err() != nil {
		err = errors.Join(ctx.Err(), err)
	}
	return string(out), err
}

// tester returns the path of a program from deploy/deps.sh, or skips the test.
func tester(t *testing.T, name string) string {
	t.Helper()
	cache, err := os.UserCacheDir()
	require.NoError(t, err)
	for _, path := range []string{filepath.Join(cache, "globalfs", "posixtest", "bin", name), name} {
		if found, err := exec.LookPath(path); err == nil {
			return found
		}
	}
	t.Skipf("no %s: deploy/deps.sh test installs it", name)
	return ""
}

// partitions runs a test of semantics in each kind of partition, and in a directory with its files in several
// partitions.
func partitions(t *testing.T, c *cluster, test func(t *testing.T, dir string)) {
	for name, path := range map[string]string{"local": near, "global": ".", "spread": "."} {
		t.Run(name, func(t *testing.T) {
			dir, err := os.MkdirTemp(c.in(near, path), "t")
			require.NoError(t, err)
			require.NoError(t, os.Chmod(dir, 0o755))
			if name == "spread" {
				spread(t, dir)
			}
			test(t, dir)
		})
	}
}
