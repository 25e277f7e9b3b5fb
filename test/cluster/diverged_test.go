package cluster

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/globalfs/globalfs/internal/kv"
)

// The store of a replica is changed while its server is down, so that all checksums hold. fsck names the odd
// replica. When the servers run again, the ordered digest shows the difference in status. As soon as a
// majority agrees, the odd replica is replaced, and the evidence is kept. Nothing that was written is lost.
func TestDivergedReplica(t *testing.T) {
	v := newVictim(t)
	const odd, other, late = "westc", "westa", "westb"
	v.write(t, 20)
	v.awaitHealthy(t)
	for _, name := range v.Names() {
		require.NoError(t, v.Servers[name].Stop())
	}
	data := filepath.Dir(v.DataDir(odd))
	out, err := v.Run(t.Context(), "fsck", "--blocks", "--data-dir", data)
	require.NoError(t, err)
	require.Contains(t, out, "clean")
	changeStore(t, filepath.Join(v.DataDir(odd), "partition-1", "state"))
	out, err = v.Run(t.Context(), "fsck", "--data-dir", data)
	require.Error(t, err)
	require.Contains(t, out, "the same commands as", "fsck compares the replicas")
	require.Contains(t, out, "on "+odd)

	from := len(v.log(t, odd))
	for _, name := range []string{odd, other} { // two that differ are no majority: nothing is replaced yet
		require.NoError(t, v.Servers[name].Launch())
	}
	for _, name := range []string{odd, other} {
		require.NoError(t, v.Servers[name].AwaitReady(t.Context()))
	}
	v.write(t, 5)
	require.Eventually(t, func() bool {
		out, err = v.Admin(context.Background(), "status")
		return err != nil && strings.Contains(out, "REPLICA_DIVERGED")
	}, long, 200*time.Millisecond, "status shows the difference")
	require.Contains(t, out, "no majority of the replicas agrees")
	v.awaitSaid(t, odd, from, "a replica here has another state than others of its partition")
	require.Empty(t, v.evidence(t, odd))

	require.NoError(t, v.Servers[late].Start(t.Context()))
	v.write(t, 5)
	v.awaitSaid(t, odd, from, "a damaged replica is replaced")
	v.awaitHealthy(t)
	out, err = v.Admin(t.Context(), "status")
	require.NoError(t, err)
	require.NotContains(t, out, "REPLICA_DIVERGED")
	kept := v.evidence(t, odd)
	require.Len(t, kept, 1)
	require.Regexp(t, odd+` has [0-9a-f]{32} after \d+ entries`, kept[0])
	for _, name := range []string{other, late} {
		require.Empty(t, v.evidence(t, name), "the majority stays")
	}
	v.check(t)

	v.Servers[other].Signal(unix.SIGSTOP) // the majority needs the new replica
	v.write(t, 5)
	v.check(t)
	v.Servers[other].Signal(unix.SIGCONT)
	v.awaitHealthy(t)
	for _, name := range v.Names() {
		require.NoError(t, v.Servers[name].Stop())
	}
	out, err = v.Run(t.Context(), "fsck", "--data-dir", data)
	require.NoError(t, err, "the new replica has the state of the others")
	require.Contains(t, out, "clean")
	for _, name := range v.Names() { // the mount ends with its servers
		require.NoError(t, v.Servers[name].Launch())
	}
}

// evidence returns the reasons in the directories of replicas of partition 1 that a server has set aside.
func (v *victim) evidence(t *testing.T, server string) (reasons []string) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(v.DataDir(server), "partition-1.damaged-*", "damaged"))
	require.NoError(t, err)
	for _, path := range paths {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		require.DirExists(t, filepath.Join(filepath.Dir(path), "state"))
		reasons = append(reasons, string(text))
	}
	return reasons
}

// changeStore changes one bit of the value of a key of the metadata, through the code of the store.
func changeStore(t *testing.T, dir string) {
	t.Helper()
	keys, err := kv.Open(dir, kv.Options{})
	require.NoError(t, err)
	var last, value []byte
	for k, v := range keys.Scan(nil, []byte{0x40}) {
		if len(v) > 0 {
			last, value = bytes.Clone(k), bytes.Clone(v)
		}
	}
	require.NotEmpty(t, last)
	value[len(value)-1] ^= 1
	keys.Set(last, value)
	require.NoError(t, keys.Commit(true))
	require.NoError(t, keys.Close())
}
