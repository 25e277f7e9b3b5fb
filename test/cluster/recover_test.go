package cluster

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/block/objects/objectstest"
	"github.com/globalfs/globalfs/internal/daemon"
	"github.com/globalfs/globalfs/internal/salvage"
)

// settled waits until all replicas have executed all updates.
func (c *Cluster) settled(t *testing.T) {
	t.Helper()
	require.Eventually(t, func() bool {
		var h daemon.Health
		out, err := c.Admin(t.Context(), "status", "-o", "json")
		if err != nil && !strings.HasPrefix(out, "{") || json.Unmarshal([]byte(out[:strings.LastIndex(out, "}")+1]), &h) != nil {
			return false
		}
		for _, p := range h.Partitions {
			for _, r := range p.Replicas {
				if !r.Up || r.Lag > 0 {
					return false
				}
			}
		}
		return len(h.Partitions) > 0
	}, long, 100*time.Millisecond)
}

// interrupted writes files without end, until a write fails. It returns the number of files that were
// acknowledged.
func interrupted(dir string) (stop func() int64) {
	var count atomic.Int64
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for write(filepath.Join(dir, fmt.Sprintf("late-%d", count.Load())), fmt.Sprintf("late %d", count.Load())) == nil {
			count.Add(1)
		}
	}()
	return func() int64 {
		<-ended
		return count.Load()
	}
}

// recover runs `admin recover` on the directories of all servers.
func (c *Cluster) recover(t *testing.T, repository string, args ...string) (s salvage.Statement, err error) {
	t.Helper()
	out, err := c.Run(t.Context(), append([]string{"admin", "recover", "--data-dir", c.path("data"), "--into", repository, "-o", "json"}, args...)...)
	if end := strings.LastIndex(out, "}"); end > 0 {
		require.NoError(t, json.Unmarshal([]byte(out[strings.Index(out, "{"):end+1]), &s), out)
	}
	return s, err
}

// Two of three servers are killed in the middle of writes, and their directories are deleted. The third one
// is recovered: a new cluster has all files that the survivor had. The command names the possible loss, and
// demands that it is accepted. Directories of the old cluster are refused.
func TestRecoverAfterTheLossOfAMajority(t *testing.T) {
	t.Parallel()
	v := newVictim(t)
	v.write(t, 40)
	large := map[string]string{}
	for i := range 6 {
		path := fmt.Sprintf("/west/large-%d", i)
		large[path] = random(byte(i), 300<<10)
		require.NoError(t, write(v.mount.Dir+path, large[path]))
	}
	require.NoError(t, os.Mkdir(filepath.Join(v.mount.Dir, "global"), 0o755))
	require.NoError(t, os.Rename(filepath.Join(v.mount.Dir, "west", "file-0"), filepath.Join(v.mount.Dir, "global", "file-0")))
	v.settled(t)
	late := interrupted(filepath.Join(v.mount.Dir, "west"))
	old := filepath.Join(t.TempDir(), "old")
	v.Servers["westb"].Kill()
	v.Servers["westc"].Kill()
	require.NoError(t, os.Rename(v.DataDir("westb"), old)) // as if it was gone
	require.NoError(t, os.RemoveAll(v.DataDir("westc")))
	v.Servers["westa"].Kill()
	acknowledged := late()
	require.NoError(t, v.mount.Close())

	repository := filepath.Join(t.TempDir(), "repository")
	s, err := v.recover(t, repository)
	require.NoError(t, err, "without a partition it tells")
	require.Equal(t, []string{"/", "/west"}, s.Short())
	require.Empty(t, s.Backup)
	_, err = v.recover(t, repository, "/west", "--yes")
	require.ErrorContains(t, err, "the partitions that may lose updates are / /west")
	_, err = v.recover(t, repository, "/", "/west")
	require.ErrorContains(t, err, "-o json needs --yes")
	require.NoDirExists(t, repository, "a refused recovery writes nothing")
	s, err = v.recover(t, repository, "0", "/west", "--yes")
	require.NoError(t, err)
	require.NotEmpty(t, s.Backup)
	require.Empty(t, s.Changes)

	survivor := filepath.Join(t.TempDir(), "survivor")
	copyDir(t, v.DataDir("westa"), survivor)
	v.startAnew(t, repository)
	v.awaitHealthy(t)

	require.NoError(t, v.mount.Start(t.Context()))
	v.files["../global/file-0"] = v.files["file-0"]
	delete(v.files, "file-0")
	for name, content := range v.files {
		got, err := os.ReadFile(filepath.Join(v.mount.Dir, "west", name))
		require.NoError(t, err)
		require.Equal(t, content, string(got), name)
	}
	lost := map[string]bool{}
	for _, path := range s.LostFiles {
		lost[path] = true
	}
	for path, content := range large {
		got, err := os.ReadFile(v.mount.Dir + path)
		if lost[path] { // its copies were on the two servers
			require.Error(t, err, path)
			require.NoError(t, os.Remove(v.mount.Dir+path))
			continue
		}
		require.NoError(t, err, path)
		require.Equal(t, content, string(got), path)
	}
	for i := range acknowledged + 1 { // those that the survivor had are a prefix
		got, err := os.ReadFile(filepath.Join(v.mount.Dir, "west", fmt.Sprintf("late-%d", i)))
		if os.IsNotExist(err) {
			t.Logf("%d of %d files that were acknowledged at the end survived", i, acknowledged)
			break
		}
		require.NoError(t, err)
		require.Contains(t, []string{fmt.Sprintf("late %d", i), ""}, string(got))
	}
	require.NoError(t, write(filepath.Join(v.mount.Dir, "west", "after"), "new"))
	require.Eventually(t, func() bool { // removed files have their blocks until they are reaped
		_, err := v.Run(t.Context(), "fsck", "--blocks", v.mount.Dir)
		return err == nil
	}, long, time.Second)
	require.NoError(t, v.mount.Close())

	for name, dir := range map[string]string{"westb": old, "westa": survivor} { // members that return count as lost
		require.NoError(t, v.Servers[name].Stop())
		require.NoError(t, os.RemoveAll(v.DataDir(name)))
		copyDir(t, dir, v.DataDir(name))
		require.ErrorContains(t, v.Servers[name].Start(t.Context()), "this process belongs to the old one")
	}
}

// recoverTyping runs `admin recover` as an operator who answers the question.
func (c *Cluster) recoverTyping(t *testing.T, words, repository string, args ...string) (out string, err error) {
	t.Helper()
	cmd := c.on(t.Context(), "", append([]string{"admin", "recover", "--data-dir", c.path("data"), "--into", repository}, args...)...)
	cmd.Stdin = strings.NewReader(words + "\n")
	said, err := cmd.CombinedOutput()
	return string(said), err
}

// startAll starts all servers together.
func (c *Cluster) startAll(t *testing.T) {
	t.Helper()
	var starts []func() error
	for _, name := range c.Names() {
		starts = append(starts, func() error { return c.Servers[name].Start(t.Context()) })
	}
	require.NoError(t, together(starts))
}

// startAnew makes a new cluster of a recovered state, with its blocks.
func (c *Cluster) startAnew(t *testing.T, repository string) {
	t.Helper()
	require.Eventually(t, func() bool { // a server that died counts as live for its lease
		_, err := c.Run(t.Context(), "admin", "forget", "test", "--config", c.file())
		return err == nil
	}, patience, patience/100)
	require.NoError(t, os.Rename(c.path("data"), filepath.Join(t.TempDir(), "data")))
	out, err := c.Run(t.Context(), "restore", "metadata", "--from", repository, "--config", c.file())
	require.NoError(t, err, out)
	c.startAll(t)
	out, err = c.Admin(t.Context(), "restore", "blocks", "--from", repository)
	require.NoError(t, err, out)
}

// A region is lost for ever with all replicas of its partition. The partition takes its state from the last
// backup, and the others lose nothing. A file that was moved out of the region since the backup exists once.
// Both repositories are in object storage, and the operator types the accepted loss.
func TestRecoverAfterTheLossOfARegion(t *testing.T) {
	storage := objectstest.Start(t, t.TempDir())
	c := start(t)
	m, err := c.Mount(t.Context(), "east", "", filepath.Join(t.TempDir(), "tree"))
	require.NoError(t, err)
	put := func(path string, seed byte) string {
		content := random(seed, 100<<10)
		require.NoError(t, write(m.Dir+path, content))
		return content
	}
	want := map[string]string{"/west/kept": put("/west/kept", 1), "/east/moved": put("/west/moved", 2), "/east/old": put("/east/old", 3)}
	at := func(prefix string) string {
		return "s3://" + objectstest.Bucket + "/" + prefix + "?region=us-east-1&pathstyle=true&endpoint=" + storage.Endpoint()
	}
	saved, recovered := at("saved"), at("recovered")
	c.backUp(t, saved)
	require.NoError(t, os.Rename(m.Dir+"/west/moved", m.Dir+"/east/moved"))
	require.NoError(t, os.Rename(m.Dir+"/east/old", m.Dir+"/west/old"))
	delete(want, "/east/old") // it is lost with the region
	put("/west/late", 4)
	want["/eu/late"] = put("/eu/late", 5)
	c.settled(t)
	require.NoError(t, m.Close())
	for _, s := range c.Servers {
		s.Kill()
	}
	_, err = c.recover(t, recovered)
	require.NoError(t, err, "it tells that nothing is lost")
	s, err := c.recover(t, recovered, "/west", "--yes")
	require.ErrorContains(t, err, "every partition has a majority of its replicas")
	require.Empty(t, s.Short())
	require.NoError(t, os.RemoveAll(c.DataDir("westa")))
	_, err = c.recover(t, recovered, "/west", "--yes")
	require.ErrorContains(t, err, "(/west): none of its replicas can be read: --lost-from REPOSITORY")
	s, err = c.recover(t, recovered, "--lost-from", saved)
	require.NoError(t, err)
	require.Equal(t, []string{"/west"}, s.Short())
	require.NotZero(t, s.Partitions[1].Seen, "other partitions have seen later updates")
	require.Zero(t, s.LostBlocks)
	for _, words := range []string{"", "y", "/", "/west /"} {
		out, err := c.recoverTyping(t, words, recovered, "/west", "--lost-from", saved)
		var exit *exec.ExitError
		require.ErrorAs(t, err, &exit, out)
		require.Equal(t, 3, exit.ExitCode(), out)
		require.Contains(t, out, `Type "/west" to go on`)
		require.Contains(t, out, "not confirmed: nothing is written")
	}
	_, err = c.Run(t.Context(), "backup", "list", recovered)
	require.ErrorContains(t, err, "has no backups")
	out, err := c.recoverTyping(t, " /west ", recovered, "/west", "--lost-from", saved)
	require.NoError(t, err, out)
	require.Contains(t, out, "the recovered state is backup ")

	c.startAnew(t, recovered)
	require.NoError(t, m.Start(t.Context()))
	require.Equal(t, want, files(t, m.Dir))
	require.NoError(t, write(m.Dir+"/west/after", "new"))
	require.NoError(t, os.Rename(m.Dir+"/west/after", m.Dir+"/eu/after"))
	out, err = c.Run(t.Context(), "fsck", "--blocks", m.Dir)
	require.NoError(t, err, out)
}
