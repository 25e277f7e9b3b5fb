package mount

import (
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/globalfs/globalfs/internal/client"
	"github.com/globalfs/globalfs/internal/client/clienttest"
)

// mountWith mounts with a client of its own settings.
func mountWith(t *testing.T, n *clienttest.Network, set func(*client.Config), more ...func(*Config)) *mounted {
	t.Helper()
	mountOf(t, n) // or skips
	cfg := n.Config("us-west-2")
	set(&cfg)
	c, err := client.New(cfg)
	require.NoError(t, err)
	dir := t.TempDir()
	mc := Config{Client: c, Dir: dir}
	for _, f := range more {
		f(&mc)
	}
	m, err := New(mc)
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, m.Unmount())
		require.NoError(t, c.Close())
	})
	return &mounted{n, c, m, dir}
}

// A program on a hard mount waits for the cluster; a killed program does not.
func TestHardMount(t *testing.T) {
	const timeout = time.Second
	n := clienttest.New(t, spec, time.Minute)
	m := mountWith(t, n, func(cfg *client.Config) { cfg.Hard, cfg.Timeout = true, timeout })
	m.write(t, "f", "x")
	m.write(t, "g", "x")
	waiting, write := writerOf(t, m.path("f"))
	killed, writeToo := writerOf(t, m.path("g"))
	replicas := n.Processes(0, "us-west-2")
	n.Fail(clienttest.Silent, replicas...)
	before := n.Calls(replicas...)
	write()
	writeToo()
	n.AwaitCalls(before+2, replicas...)
	reader := exec.Command("cat", m.path("g"))
	require.NoError(t, reader.Start())
	ended := make(chan error, 1)
	go func() { ended <- waiting.Wait() }()
	start := time.Now()
	require.NoError(t, killed.Process.Kill())
	require.NoError(t, reader.Process.Kill())
	require.Error(t, inTime(t, killed.Wait))
	require.Error(t, inTime(t, reader.Wait))
	require.Less(t, time.Since(start), 2*(timeout+patience))
	require.Greater(t, time.Since(start), timeout, "it outlasts what a soft mount does")
	require.Empty(t, ended)
	n.Fail(clienttest.None, replicas...)
	require.NoError(t, inTime(t, func() error { return <-ended }))
	require.Equal(t, "xy\n", m.read(t, "f"))
}

// umount -f ends a mount while no server answers, and ends the requests of all programs that wait.
func TestForcedUnmount(t *testing.T) {
	for name, x := range map[string]struct{ hard, sync bool }{"soft": {false, true}, "hard": {true, true}, "content is kept": {false, false}} {
		t.Run(name, func(t *testing.T) {
			n := clienttest.New(t, spec, time.Minute)
			m := mountWith(t, n, func(cfg *client.Config) { cfg.Hard, cfg.Timeout = x.hard, time.Hour }, func(cfg *Config) { cfg.Sync = x.sync })
			m.write(t, "f", "x")
			writer, write := writerOf(t, m.path("f"))
			replicas := n.Processes(0, "us-west-2")
			n.Fail(clienttest.Silent, replicas...)
			before := n.Calls(replicas...)
			write()
			n.AwaitCalls(before+1, replicas...)
			reader := exec.Command("cat", m.path("g"))
			require.NoError(t, reader.Start())
			require.NoError(t, exec.Command("umount", "-f", "-l", m.dir).Run())
			require.NoError(t, inTime(t, func() error { m.mount.Wait(); return nil }), "all handlers have ended")
			require.Error(t, inTime(t, reader.Wait))
			if err := inTime(t, writer.Wait); x.sync {
				require.Error(t, err)
			}
			require.NoError(t, unix.Access(m.dir, unix.R_OK))
			n.Fail(clienttest.None, replicas...)
		})
	}
}
