package cluster

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/globalfs/globalfs/test/program"
)

// firstSteps is a new user's directory with the program in PATH, and etcd.
type firstSteps struct {
	t    *testing.T
	c    *Cluster // only etcd
	dir  string
	path string
}

func newFirstSteps(t *testing.T) *firstSteps {
	t.Helper()
	if _, err := os.Stat("/dev/fuse"); err != nil || os.Getuid() != 0 {
		t.Skip("needs /dev/fuse and root")
	}
	etcd, err := FindEtcd()
	if err != nil {
		t.Skipf("no etcd: deploy/deps.sh test fetches it (%v)", err)
	}
	f := &firstSteps{t: t, dir: t.TempDir()}
	f.path = filepath.Dir(program.Path(t)) + ":" + os.Getenv("PATH")
	f.c = &Cluster{cfg: Config{Etcd: etcd, Dir: t.TempDir()}, addresses: map[string]string{}}
	require.NoError(t, f.c.startEtcd(t.Context()))
	t.Cleanup(func() { require.NoError(t, f.c.Etcd.Stop()) })
	return f
}

// sh runs a script like the user. Its processes in the background end with the test.
func (f *firstSteps) sh(script string) (out string, code int) {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 4*patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-eu", "-c", script)
	cmd.Dir = f.dir
	cmd.Env = append(os.Environ(), "PATH="+f.path, "GLOBALFS_LOG_FILE="+filepath.Join(f.dir, "mount.log"))
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	said := filepath.Join(f.t.TempDir(), "said") // a pipe would stay open in the background
	log, err := os.Create(said)
	require.NoError(f.t, err)
	cmd.Stdout, cmd.Stderr = log, log
	require.NoError(f.t, cmd.Start())
	group := cmd.Process.Pid
	f.t.Cleanup(func() { f.end(group) })
	_ = cmd.Wait() // the caller checks the exit code
	require.NoError(f.t, log.Close())
	text, err := os.ReadFile(said)
	require.NoError(f.t, err)
	return string(text), cmd.ProcessState.ExitCode()
}

// end ends a process group.
func (f *firstSteps) end(group int) {
	_ = syscall.Kill(-group, syscall.SIGTERM)
	require.Eventually(f.t, func() bool { return syscall.Kill(-group, 0) == syscall.ESRCH }, patience, 50*time.Millisecond)
}

// ports returns the first of n consecutive ports that are free now.
func (f *firstSteps) ports(n int) int {
	for base := 21000; base < 32000; base += n {
		free := true
		for p := base; p < base+n && free; p++ {
			l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(p)))
			if free = err == nil; free {
				require.NoError(f.t, l.Close())
			}
		}
		if free {
			return base
		}
	}
	f.t.Fatal("no free ports")
	return 0
}

// printed returns the commands in the output of init: exactly its indented lines.
func printed(out string) (commands []string) {
	for line := range strings.Lines(out) {
		if strings.HasPrefix(line, "  ") {
			commands = append(commands, strings.TrimSpace(line))
		}
	}
	return commands
}

// The commands that init prints lead to a mounted cluster. They are run unchanged except for the mount point,
// with one datacenter in each region and with three.
func TestFirstSteps(t *testing.T) {
	f := newFirstSteps(t)
	etcd := "http://" + f.c.addresses["etcd"]
	base := strconv.Itoa(f.ports(3))
	out, code := f.sh("globalfs init --loopback " + base + " --datacenters 1 --etcd " + etcd + " --data-dir " + filepath.Join(f.dir, "data"))
	require.Zero(t, code, out)
	steps := printed(out)
	require.NotEmpty(t, steps)
	const there = "/mnt/globalfs"
	mount := filepath.Join(f.dir, "mnt")
	script := strings.Join(steps, "\n")
	require.Equal(t, 1, strings.Count(script, there), script)
	t.Cleanup(func() { _ = unix.Unmount(mount, unix.MNT_DETACH|unix.MNT_FORCE) }) // it is unmounted if the test passes
	out, code = f.sh(strings.Replace(script, there, mount, 1))
	require.Zero(t, code, "%s\n%s", script, out)
	require.NoError(t, mounted(mount), out)
	require.NoError(t, os.WriteFile(filepath.Join(mount, "us-west-2", "file"), []byte("x"), 0o644))

	f.mismatch(mount, base)
	out, code = f.sh("globalfs umount " + mount)
	require.Zero(t, code, out)
}

// mismatch requires that commands that cannot work fail at once with the reason, and do not wait for servers.
func (f *firstSteps) mismatch(mount, port string) {
	t := f.t
	server := "127.0.0.1:" + port
	file := filepath.Join(f.dir, "cluster.yaml")
	for _, c := range []struct {
		script string
		code   int
		want   string
	}{
		{"globalfs mount --mkdir --connect-timeout 10m --certs none " + server + " other", 1, "accepts only TLS: give the directory"},
		{"globalfs status --connect-timeout 10m --certs none --servers " + server, 1, "accepts only TLS: give the directory"},
		{"globalfs mount --connect-timeout 10m " + server + " missing", 3, "does not exist: make it with mkdir, or give --mkdir"},
		{"globalfs mount --connect-timeout 10m " + server + " " + file, 3, "not a directory: give a directory as the mount point"},
		{"globalfs mount --connect-timeout 10m --certs none 127.0.0.1:1 " + mount, 3, "busy: a file system (fuse.globalfs) is mounted there"},
		{"globalfs mount --connect-timeout 10m --name nobody " + server + " .", 3, `no certificate of the client "nobody", only of client1`},
		{"globalfs mount --connect-timeout 10m --certs none 192.0.2.1:7420 .", 3, "connections to other hosts need a certificate"},
		{"globalfs mount --connect-timeout 10m no-such-host.invalid:7420 .", 3, "cannot resolve no-such-host.invalid"},
		{"globalfs server us-west-2z", 3, "in the cluster file, which has us-west-2a, us-east-1a, eu-west-1a"},
	} {
		start := time.Now()
		out, code := f.sh(c.script)
		require.Equal(t, c.code, code, "%s: %s", c.script, out)
		require.Contains(t, out, c.want, c.script)
		require.Less(t, time.Since(start), 2*time.Minute, c.script)
	}
	require.NoDirExists(t, filepath.Join(f.dir, "missing"))
	require.NoError(t, mounted(mount))
}
