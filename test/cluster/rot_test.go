package cluster

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/globalfs/globalfs/internal/topology"
)

// long is the time limit for the replacement of a damaged replica on a slow machine.
const long = 2 * time.Minute

// victim is a region of three servers with synced files.
type victim struct {
	*Cluster
	mount *Mount
	files map[string]string
}

func newVictim(t *testing.T) *victim { return newVictimOf(t, "") }

// newVictimOf returns a region whose partitions have an order; empty: the default.
func newVictimOf(t *testing.T, order string) *victim {
	c := startWith(t, Config{Regions: []topology.Region{"west"}, Datacenters: 3, Replicas: 3, Copies: 2, LocalOrder: order})
	m, err := c.Mount(t.Context(), "west", "", filepath.Join(t.TempDir(), "tree"))
	require.NoError(t, err)
	return &victim{Cluster: c, mount: m, files: map[string]string{}}
}

// write makes files. All are acknowledged when it returns.
func (v *victim) write(t *testing.T, count int) {
	t.Helper()
	for range count {
		name, content := fmt.Sprintf("file-%d", len(v.files)), fmt.Sprintf("content %d of %s", len(v.files), t.Name())
		path := filepath.Join(v.mount.Dir, "west", name)
		require.Eventually(t, func() bool { return write(path, content) == nil }, long, 100*time.Millisecond, name)
		v.files[name] = content
	}
}

// write writes and syncs a file.
func write(path, content string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = f.WriteString(content)
	for _, do := range []func() error{f.Sync, f.Close} {
		if e := do(); err == nil {
			err = e
		}
	}
	return err
}

// check reads all files.
func (v *victim) check(t *testing.T) {
	t.Helper()
	dir := filepath.Join(v.mount.Dir, "west")
	var entries []os.DirEntry
	require.Eventually(t, func() (done bool) {
		var err error
		entries, err = os.ReadDir(dir)
		return err == nil
	}, long, 100*time.Millisecond)
	require.Len(t, entries, len(v.files))
	for name, content := range v.files {
		var got []byte
		require.Eventually(t, func() bool {
			var err error
			got, err = os.ReadFile(filepath.Join(dir, name))
			return err == nil
		}, long, 100*time.Millisecond, name)
		require.Equal(t, content, string(got), name)
	}
}

// awaitHealthy waits until status reports no problems, and every replica takes part.
func (v *victim) awaitHealthy(t *testing.T) {
	t.Helper()
	var out string
	require.Eventually(t, func() bool {
		var err error
		out, err = v.Admin(t.Context(), "status", "--settled")
		return err == nil && strings.Contains(out, "HEALTHY") && !strings.Contains(out, "NOT HEALTHY")
	}, long, 200*time.Millisecond, "%s", func() string { return out }())
}

// awaitSaid waits until the log of a server has a text after the byte from.
func (v *victim) awaitSaid(t *testing.T, server string, from int, text string) {
	t.Helper()
	p := v.Servers[server]
	require.Eventually(t, func() bool { return strings.Contains(v.log(t, server)[from:], text) }, long, 100*time.Millisecond, "%s did not say %q", p.Name, text)
}

func (v *victim) log(t *testing.T, server string) string {
	text, err := os.ReadFile(v.Servers[server].Log)
	require.NoError(t, err)
	return string(text)
}

// flip inverts a bit of each file of a server that matches a pattern, at a fraction part of its written
// content.
func (v *victim) flip(t *testing.T, server, pattern string, part float64) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(v.DataDir(server), pattern))
	require.NoError(t, err)
	require.NotEmpty(t, paths, pattern)
	for _, path := range paths {
		b, err := os.ReadFile(path)
		require.NoError(t, err)
		written := len(bytes.TrimRight(b, "\x00"))
		require.NotZero(t, written, path)
		b[int(part*float64(written-1))] ^= 0x10
		require.NoError(t, os.WriteFile(path, b, 0o600))
	}
}

const (
	damaged  = "the log or the store of a replica is damaged"
	replaced = "a damaged replica is replaced"
)

// rot inverts a bit in a file of a stopped server, and starts the server, which must log the texts. Then it
// pauses another server, so that the majority needs this one.
func (v *victim) rot(t *testing.T, name, other, pattern string, part float64, says []string) {
	server := v.Servers[name]
	v.write(t, 20)
	server.Kill() // the next start makes a table of the journal
	require.NoError(t, server.Start(t.Context()))
	v.write(t, 20)
	v.awaitHealthy(t)
	server.Kill()
	v.flip(t, name, pattern, part)
	v.write(t, 5)
	from := len(v.log(t, name))
	require.NoError(t, server.Start(t.Context()))
	for _, text := range says {
		v.awaitSaid(t, name, from, text)
	}
	v.awaitHealthy(t)
	v.check(t)
	if says != nil {
		aside, err := filepath.Glob(filepath.Join(v.DataDir(name), "partition-1.damaged-*"))
		require.NoError(t, err)
		require.Len(t, aside, 1, "the evidence stays")
	}
	v.Servers[other].Signal(unix.SIGSTOP)
	v.write(t, 5)
	v.check(t)
	v.Servers[other].Signal(unix.SIGCONT)
	v.awaitHealthy(t)
}

// One bit of a file of a server is inverted while the server is down. No acknowledged update is lost, the
// server starts, and damaged replicas are replaced automatically.
func TestBitRot(t *testing.T) {
	v := newVictim(t)
	servers := v.Names()
	for i, c := range []struct {
		name, pattern string
		part          float64
		says          []string
	}{
		{"table", "partition-1/state/*.ldb", 0.5, []string{damaged, replaced}},
		{"manifest", "partition-1/state/MANIFEST-*", 0.5, []string{damaged, replaced}},
		{"journal", "partition-1/state/*.log", 0.5, nil}, // the store has the state of the intact part, and the log has the rest
		{"log middle", "partition-1/log/*.wal", 0.5, []string{damaged, replaced}},
		{"log end", "partition-1/log/*.wal", 1, []string{damaged, replaced}}, // it does not count as a torn write
	} {
		t.Run(c.name, func(t *testing.T) {
			v.rot(t, servers[i%len(servers)], servers[(i+1)%len(servers)], c.pattern, c.part, c.says)
		})
	}
	t.Run("no majority", func(t *testing.T) {
		v.write(t, 20)
		two, froms := servers[:2], map[string]int{}
		for _, name := range two {
			v.Servers[name].Kill()
		}
		for _, name := range two {
			v.flip(t, name, "partition-1/log/*.wal", 0.5)
			froms[name] = len(v.log(t, name))
			require.NoError(t, v.Servers[name].Start(t.Context()))
			v.awaitSaid(t, name, froms[name], damaged)
		}
		for _, name := range two {
			v.awaitSaid(t, name, froms[name], "cannot be replaced yet")
			require.True(t, v.Servers[name].Running())
		}
		out, err := v.Admin(t.Context(), "status")
		require.Error(t, err)
		require.Contains(t, out, "REPLICA_DAMAGED")
		require.Eventually(t, func() bool { // the other partition continues
			return os.WriteFile(filepath.Join(v.mount.Dir, "beside"), []byte("x"), 0o644) == nil
		}, long, 100*time.Millisecond)
		for _, name := range two {
			v.Servers[name].Kill()
			v.flip(t, name, "partition-1/log/*.wal", 0.5) // back
			require.NoError(t, v.Servers[name].Start(t.Context()))
			v.awaitSaid(t, name, froms[name], "it runs again")
		}
		v.awaitHealthy(t)
		v.check(t)
	})
}
