package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/globalfs/globalfs/internal/daemon"
	"github.com/globalfs/globalfs/internal/topology"
	"github.com/globalfs/globalfs/test/program"
)

// order lets all clusters of the tests use it that do not choose themselves.
var order = flag.String("cluster.order", "", "protocol that orders the partitions of a region, primcast or tram; empty: the default")

// start runs three servers on loopback with the real binary.
func start(t *testing.T) *Cluster {
	t.Helper()
	return startWith(t, Config{})
}

// startWith is start with the settings of cfg.
func startWith(t *testing.T, cfg Config) *Cluster {
	t.Helper()
	if _, err := os.Stat("/dev/fuse"); err != nil || os.Getuid() != 0 {
		t.Skip("needs /dev/fuse and root")
	}
	var err error
	if cfg.Etcd, err = FindEtcd(); err != nil {
		t.Skipf("no etcd: deploy/deps.sh test fetches it (%v)", err)
	}
	cfg.Dir = t.TempDir()
	cfg.Program = program.Path(t)
	if cfg.LocalOrder == "" {
		cfg.LocalOrder = *order
	}
	if cfg.Regions == nil {
		cfg.Regions, cfg.Datacenters, cfg.Replicas, cfg.Copies = []topology.Region{"west", "east", "eu"}, 1, 1, 1
	}
	c, err := Start(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

// ranAs runs the binary under another name, and returns its exit code and its output.
func (c *Cluster) ranAs(t *testing.T, name string, args ...string) (code int, said string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience) // also when the test has ended
	defer cancel()
	cmd := endWithUs(exec.CommandContext(ctx, c.cfg.Program, args...))
	cmd.Args[0] = name
	cmd.Env = append(os.Environ(), "GLOBALFS_LOG_FILE="+c.path("mounts.log"), "CACHE_DIRECTORY="+c.path("cache"))
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exit.ExitCode(), out.String()
	}
	require.NoError(t, err)
	return 0, out.String()
}

// serving returns the processes that serve a mount point.
func serving(t *testing.T, dir string) (pids []string) {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/cmdline")
	require.NoError(t, err)
	for _, path := range all {
		if line, err := os.ReadFile(path); err == nil && bytes.Contains(line, append([]byte(dir), 0)) {
			pids = append(pids, path)
		}
	}
	return pids
}

// flags returns the flags of a mount, as in /proc/mounts.
func flags(t *testing.T, dir string) string {
	t.Helper()
	mounts, err := os.ReadFile("/proc/mounts")
	require.NoError(t, err)
	_, after, found := strings.Cut(string(mounts), " "+dir+" fuse.globalfs ")
	require.True(t, found, "%s", mounts)
	flags, _, _ := strings.Cut(after, ",relatime")
	return flags
}

// A mount goes into the background once it is ready, for each way to start it, and leaves nothing behind.
func TestMountInTheBackground(t *testing.T) {
	c := start(t)
	for name, args := range map[string]func(dir string) (string, []string){
		"command": func(dir string) (string, []string) {
			return "globalfs", []string{"mount", c.Address("easta"), dir, "--certs", c.Certs()}
		},
		"mount -t globalfs": func(dir string) (string, []string) {
			return "/sbin/mount.globalfs", []string{c.Address("easta") + "," + c.Address("westa"), dir, "-n", "-o", "rw,_netdev,nofail,certs=" + c.Certs() + ",region=eu"}
		},
		"mount.fuse3": func(dir string) (string, []string) {
			return "globalfs", []string{c.Address("easta"), dir, "-o", "rw,dev,suid,certs=" + c.Certs()}
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			program, line := args(dir)
			code, said := c.ranAs(t, program, line...)
			require.Zero(t, code, said)
			require.NoError(t, mounted(dir))
			require.NotEmpty(t, serving(t, dir))
			log, err := os.Stat(c.path("mounts.log"))
			require.NoError(t, err)
			require.Equal(t, os.FileMode(0o600), log.Mode())
			require.Equal(t, "rw,nosuid,nodev", flags(t, dir))
			path := filepath.Join(dir, "west", "file")
			require.NoError(t, os.WriteFile(path, []byte(name), 0o644))
			code, said = c.ranAs(t, "/sbin/mount.fuse.globalfs", c.Address("easta"), dir, "-o", "ro,nosuid,noexec,relatime,user_id=0,remount")
			require.Zero(t, code, said)
			require.Equal(t, "ro,nosuid,noexec", flags(t, dir))
			got, err := os.ReadFile(path)
			require.NoError(t, err)
			require.Equal(t, name, string(got))

			held, err := os.Open(path)
			require.NoError(t, err)
			code, said = c.ranAs(t, "globalfs", "umount", dir)
			require.Equal(t, 1, code)
			require.Contains(t, said, "fuser -vm")
			require.NoError(t, held.Close())
			code, said = c.ranAs(t, "globalfs", "umount", dir)
			require.Zero(t, code, said)
			require.Error(t, mounted(dir))
			require.Eventually(t, func() bool { return len(serving(t, dir)) == 0 }, 30*time.Second, 20*time.Millisecond)
		})
	}
}

// A failed mount prints the reason, and has the exit code for scripts and mount(8).
func TestMountFails(t *testing.T) {
	c := start(t)
	dir := t.TempDir()
	for name, f := range map[string]struct {
		program string
		args    []string
		code    int
		want    string
	}{
		"nobody there":   {"globalfs", []string{"mount", "127.0.0.1:1", dir, "--certs", c.Certs(), "--connect-timeout", "1s"}, 1, "127.0.0.1:1"},
		"no certificate": {"globalfs", []string{"mount", c.Address("westa"), dir, "--connect-timeout", "1s"}, 1, c.Address("westa")},
		"no such region": {"globalfs", []string{"mount", c.Address("westa"), dir, "--certs", c.Certs(), "--region", "mars"}, 3, `no region "mars"`},
		"no directory":   {"globalfs", []string{"mount", c.Address("westa") + ":/none", dir, "--certs", c.Certs()}, 1, "/none: the tree has no such directory"},
		"no port":        {"globalfs", []string{"mount", "host", dir}, 3, "give host:port"},
		"wrong option":   {"globalfs", []string{"mount", c.Address("westa"), dir, "-o", "color=red"}, 128, "-o color"},
		"as mount(8)":    {"mount.globalfs", []string{"127.0.0.1:1", dir, "-o", "connect-timeout=1s,certs=" + c.Certs()}, 32, "127.0.0.1:1"},
		"not mounted":    {"globalfs", []string{"umount", dir}, 1, "no GlobalFS is mounted there"},
	} {
		t.Run(name, func(t *testing.T) {
			code, said := c.ranAs(t, f.program, f.args...)
			require.Equal(t, f.code, code, said)
			require.Contains(t, said, f.want)
			require.Empty(t, serving(t, dir))
		})
	}
}

// The status reports problems to scripts and to people.
func TestStatus(t *testing.T) {
	c := start(t)
	require.Eventually(t, func() bool {
		_, err := c.Admin(t.Context(), "status", "--settled")
		return err == nil
	}, 60*time.Second, 100*time.Millisecond, "healthy")
	c.Servers["eua"].Kill()
	out, err := c.Admin(t.Context(), "status", "-o", "json")
	var exit *exec.ExitError
	require.ErrorAs(t, err, &exit)
	require.Equal(t, 5, exit.ExitCode())
	var h daemon.Health
	require.NoError(t, json.Unmarshal([]byte(out), &h))
	require.False(t, h.Healthy)
	problem := func(code string) (found []daemon.Problem) {
		for _, p := range h.Problems {
			if p.Code == code {
				found = append(found, p)
			}
		}
		require.Len(t, found, 1, "%s in %v", code, h.Problems)
		return found
	}
	require.Equal(t, daemon.ServerDown, h.Problems[0].Code, "the cause is first: %v", h.Problems)
	require.Contains(t, problem(daemon.ServerDown)[0].Text, "server eua does not answer (it has replicas of /, /eu)")
	require.Contains(t, problem(daemon.PartitionBlocked)[0].Text, "partition 3 (/eu)")
	require.Equal(t, daemon.LevelErr, problem(daemon.PartitionBlocked)[0].Level)
	require.Equal(t, []string{"eua"}, problem(daemon.PartitionWeak)[0].CausedBy)
	for _, p := range h.Problems {
		require.NotContains(t, p.Text, "\n")
		require.NotContains(t, p.Text+strings.Join(p.Details, " "), "desc = ")
	}
	out, err = c.Admin(t.Context(), "status")
	require.Error(t, err)
	require.Contains(t, out, "NOT HEALTHY")
	require.Regexp(t, `(?m)^  WARN SERVER_DOWN: server eua.*\n  ERR  PARTITION_BLOCKED: partition 3`, out)
	require.NotContains(t, out, daemon.PartitionWeak, "it follows from the server that is down")
	require.Contains(t, out, "'globalfs status --verbose' shows them")
	require.NotContains(t, out, "\x1b", "no colours in a pipe")
	all, err := c.Admin(t.Context(), "status", "-v")
	require.Error(t, err)
	require.Regexp(t, `PARTITION_WEAK: partition 0 .*\n +caused by eua`, all)
	require.Regexp(t, `eua +eu +[0-9.:]+ +down`, out)
}

// Every administration command has a plain answer or error.
func TestAdmin(t *testing.T) {
	c := start(t)
	out, err := c.Admin(t.Context(), "admin", "join", "west", "127.0.0.1:1")
	require.NoError(t, err)
	require.Contains(t, out, "globalfs server westb")
	out, err = c.Admin(t.Context(), "admin", "move-leader", "0", "eua")
	require.NoError(t, err)
	require.Contains(t, out, "asked to lead")
	for _, args := range [][]string{
		{"admin", "drain", "easta"}, {"admin", "remove", "nobody"}, {"admin", "replace", "2", "easta"}, {"admin", "replace", "9", "easta"},
		{"admin", "move-leader", "1", "eua"}, {"admin", "join", "mars", "127.0.0.1:2"}, {"admin", "join", "west", "127.0.0.1:1"}, {"admin", "join", "west", "nowhere"},
	} {
		out, err := c.Admin(t.Context(), args...)
		require.Error(t, err, "%v: %s", args, out)
	}
}

// The data of a cluster in etcd can be deleted only when no server of the cluster lives. Then another cluster
// can have the name.
func TestForget(t *testing.T) {
	c := start(t)
	forget := func(name string) (int, string) {
		return c.ranAs(t, "globalfs", "admin", "forget", name, "--config", c.file())
	}
	code, said := forget("another")
	require.Equal(t, 3, code, said)
	code, said = forget("test")
	require.Equal(t, 1, code, said)
	require.Contains(t, said, "servers are live: stop easta, eua, westa")
	for _, s := range c.Servers {
		require.NoError(t, s.Stop())
	}
	code, said = forget("test")
	require.Zero(t, code, said)
	code, said = forget("test")
	require.Equal(t, 1, code, said)
	require.Contains(t, said, "has nothing of it")

	for _, name := range c.Names() {
		require.NoError(t, os.RemoveAll(c.DataDir(name)))
		require.NoError(t, c.Servers[name].Launch())
	}
	for _, s := range c.Servers {
		require.NoError(t, s.AwaitReady(t.Context()), "a new cluster of the name")
	}
}

// scrape returns the metrics at an address, or the text of the error.
func scrape(address string) string {
	answer, err := http.Get("http://" + address + "/metrics")
	if err != nil {
		return err.Error()
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	return fmt.Sprint(string(text), err)
}

// The metrics of a mount have its requests, their partitions and their durations.
func TestMetrics(t *testing.T) {
	c := start(t)
	dir := t.TempDir()
	at, err := FreeAddress("127.0.0.1")
	require.NoError(t, err)
	m, err := c.Mount(t.Context(), "east", "", dir, "--metrics", at)
	require.NoError(t, err)
	path := filepath.Join(dir, "east", "file")
	require.NoError(t, os.WriteFile(path, make([]byte, 100_000), 0o644))
	require.NoError(t, os.Rename(path, filepath.Join(dir, "west", "file")))
	require.ErrorIs(t, os.Remove(path), os.ErrNotExist)
	got := scrape(at)
	for _, want := range []string{
		`globalfs_fuse_operation_seconds_count{mount="DIR",operation="create"} 1`,
		`globalfs_fuse_errors_total{errno="ENOENT",mount="DIR",operation="lookup"} `,
		`globalfs_client_query_seconds_count{mount="DIR",partition="2"} `,
		`globalfs_client_update_seconds_count{mount="DIR",partition="2",partitions="1"} `,
		`globalfs_client_update_seconds_count{mount="DIR",partition="2",partitions="2"} 1`,
		`globalfs_cache_bytes{cache="memory",mount="DIR"} `,
	} {
		require.True(t, strings.Contains(got, strings.ReplaceAll(want, "DIR", dir)), "%s", want) // got is long
	}
	require.NoError(t, m.Close())
}

// A new process takes over a mount of a directory without any effect on programs that use a file being
// written, a file without a name, and a lock.
func TestTakeOver(t *testing.T) {
	c := start(t)
	dir := t.TempDir()
	metrics, err := FreeAddress("127.0.0.1")
	require.NoError(t, err)
	args := []string{"mount", c.Address("easta") + ":/east", dir, "--certs", c.Certs(), "--region", "east", "--metrics", metrics}
	code, said := c.ranAs(t, "globalfs", args...)
	require.Zero(t, code, said)
	first := serving(t, dir)
	require.Len(t, first, 1)

	unlinked, err := os.Create(filepath.Join(dir, "unlinked"))
	require.NoError(t, err)
	require.NoError(t, os.Remove(unlinked.Name()))
	locked, err := os.Create(filepath.Join(dir, "locked"))
	require.NoError(t, err)
	require.NoError(t, unix.Flock(int(locked.Fd()), unix.LOCK_EX))
	log, err := os.OpenFile(filepath.Join(dir, "log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	require.NoError(t, err)
	stop, written := make(chan struct{}), make(chan error, 1)
	lines := 0
	go func() {
		for {
			select {
			case <-stop:
				written <- nil
				return
			default:
			}
			if _, err := fmt.Fprintf(log, "line %d\n", lines); err != nil {
				written <- err
				return
			}
			lines++
		}
	}()
	for range 3 {
		code, said = c.ranAs(t, "globalfs", append(args, "--take-over")...)
		require.Zero(t, code, said)
		require.Eventually(t, func() bool { return len(serving(t, dir)) == 1 }, 30*time.Second, 10*time.Millisecond)
	}
	require.NotEqual(t, first, serving(t, dir))
	require.Eventually(t, func() bool {
		return strings.Contains(scrape(metrics), fmt.Sprintf(`globalfs_fuse_operation_seconds_count{mount=%q,operation="write"}`, dir))
	}, 30*time.Second, 10*time.Millisecond, "the address goes along")
	close(stop)
	require.NoError(t, <-written)
	got, err := os.ReadFile(log.Name())
	require.NoError(t, err)
	require.Equal(t, lines, bytes.Count(got, []byte("\n")))
	require.NoError(t, log.Close())

	_, err = unlinked.WriteString("still here")
	require.NoError(t, err)
	text := make([]byte, 20)
	n, err := unlinked.ReadAt(text, 0)
	require.ErrorIs(t, err, io.EOF)
	require.Equal(t, "still here", string(text[:n]))
	require.NoError(t, unlinked.Close())

	other := t.TempDir()
	code, said = c.ranAs(t, "globalfs", "mount", c.Address("westa"), other, "--certs", c.Certs())
	require.Zero(t, code, said)
	elsewhere, err := os.Open(filepath.Join(other, "east", "locked"))
	require.NoError(t, err)
	require.ErrorIs(t, unix.Flock(int(elsewhere.Fd()), unix.LOCK_EX|unix.LOCK_NB), unix.EAGAIN)
	require.NoError(t, locked.Close())
	require.Eventually(t, func() bool { return unix.Flock(int(elsewhere.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil }, 30*time.Second, 10*time.Millisecond)
	require.NoError(t, elsewhere.Close())
	for _, d := range []string{dir, other} {
		code, said = c.ranAs(t, "globalfs", "umount", d)
		require.Zero(t, code, said)
		require.Eventually(t, func() bool { return len(serving(t, d)) == 0 }, 30*time.Second, 20*time.Millisecond)
	}
	code, said = c.ranAs(t, "globalfs", append(args, "--take-over")...)
	require.Equal(t, 3, code)
	require.Contains(t, said, "is not mounted by GlobalFS")
}

// A supervised mount outlives the processes that serve it. Writes of programs wait meanwhile.
func TestSupervised(t *testing.T) {
	c := start(t)
	dir := t.TempDir()
	code, said := c.ranAs(t, "globalfs", "mount", c.Address("easta"), dir, "--certs", c.Certs(), "--region", "east", "--supervise")
	require.Zero(t, code, said)
	require.Len(t, serving(t, dir), 2, "who holds it, and who serves it")
	path := filepath.Join(dir, "east", "file")
	for n := range 4 {
		require.NoError(t, os.WriteFile(path, fmt.Append(nil, n), 0o644))
		got, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, fmt.Sprint(n), string(got))
		if n == 3 {
			break
		}
		before := servedBy(t, dir)
		require.NoError(t, unix.Kill(before, unix.SIGKILL))
		require.Eventually(t, func() bool { now := servedBy(t, dir); return now != 0 && now != before }, 30*time.Second, 10*time.Millisecond)
	}
	code, said = c.ranAs(t, "globalfs", "umount", dir)
	require.Zero(t, code, said)
	require.Eventually(t, func() bool { return len(serving(t, dir)) == 0 }, 30*time.Second, 20*time.Millisecond)
}

// servedBy returns the process of a mount point that is the child of another one; 0: there is none now.
func servedBy(t *testing.T, dir string) int {
	t.Helper()
	parents := map[int]int{}
	for _, path := range serving(t, dir) {
		var pid, parent int
		var state string
		text, err := os.ReadFile(filepath.Join(filepath.Dir(path), "stat"))
		if err != nil {
			continue
		}
		after := text[bytes.LastIndexByte(text, ')')+1:]
		_, err = fmt.Sscan(string(after), &state, &parent)
		require.NoError(t, err)
		_, err = fmt.Sscanf(path, "/proc/%d/cmdline", &pid)
		require.NoError(t, err)
		parents[pid] = parent
	}
	for pid, parent := range parents {
		if _, ok := parents[parent]; ok {
			return pid
		}
	}
	return 0
}
