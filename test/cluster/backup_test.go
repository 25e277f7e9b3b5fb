package cluster

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/backup"
)

// backUp makes a backup of the cluster.
func (c *Cluster) backUp(t *testing.T, repository string, flags ...string) (m backup.Manifest) {
	t.Helper()
	out, err := c.Admin(t.Context(), append([]string{"backup", "create", repository, "-o", "json"}, flags...)...)
	require.NoError(t, err, out)
	require.NoError(t, json.Unmarshal([]byte(out), &m), out)
	return m
}

// loseAll kills all servers, and deletes their directories and the cluster in etcd.
func (c *Cluster) loseAll(t *testing.T) {
	t.Helper()
	for name, s := range c.Servers {
		s.Kill()
		require.NoError(t, os.RemoveAll(c.DataDir(name)))
	}
	require.Eventually(t, func() bool { // a server that died counts as live for its lease
		_, err := c.Run(t.Context(), "admin", "forget", "test", "--config", c.file())
		return err == nil
	}, patience, patience/100)
}

// restoreServers restores the metadata of the servers and starts them. The first start of the last one,
// without its metadata, must fail with an error about that.
func (c *Cluster) restoreServers(t *testing.T, repository, id string) {
	t.Helper()
	metadata := []string{"restore", "metadata", "--from", repository, "--backup", id, "--config", c.file(), "--server"}
	out, err := c.Run(t.Context(), append(metadata, "westa,easta")...)
	require.NoError(t, err, out)
	require.NoError(t, together([]func() error{
		func() error { return c.Servers["westa"].Start(t.Context()) },
		func() error { return c.Servers["easta"].Start(t.Context()) },
	}))
	require.ErrorContains(t, c.Servers["eua"].Start(t.Context()), "run 'globalfs restore metadata --server eua --backup "+id)
	require.NoError(t, os.RemoveAll(c.DataDir("eua")))
	out, err = c.Run(t.Context(), append(metadata, "eua")...)
	require.NoError(t, err, out)
	require.NoError(t, c.Servers["eua"].Start(t.Context()))
}

// files reads a tree: the content of each file by its path.
func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	require.NoError(t, filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		all[strings.TrimPrefix(path, dir)] = string(content)
		return err
	}))
	return all
}

func random(seed byte, size int) string {
	content := make([]byte, size)
	_, _ = rand.NewChaCha8([32]byte{seed}).Read(content)
	return string(content)
}

// All directories of all servers are lost. A new cluster is restored from a backup that was made while files
// were renamed between the partitions of all regions. Each of these files exists exactly once, and all others
// have their contents.
func TestRestoreAfterTheLossOfAll(t *testing.T) {
	t.Parallel()
	c := start(t)
	m, err := c.Mount(t.Context(), "west", "", t.TempDir())
	require.NoError(t, err)
	regions := []string{"west", "east", "eu"}
	want := map[string]string{}
	for i, r := range regions {
		want[fmt.Sprintf("/%s/large", r)] = random(byte(i), 1<<20+i)
		want[fmt.Sprintf("/%s/small", r)] = "small in " + r
	}
	for path, content := range want {
		require.NoError(t, os.WriteFile(m.Dir+path, []byte(content), 0o644))
	}
	const movers = 3
	for i := range movers {
		require.NoError(t, os.WriteFile(filepath.Join(m.Dir, regions[i], fmt.Sprintf("moved-%d", i)), []byte(random(byte(10+i), 200<<10)), 0o644))
	}
	stop := make(chan struct{})
	var moving sync.WaitGroup
	errs := make([]error, movers)
	for i := range movers {
		moving.Go(func() {
			for at := i; errs[i] == nil; at++ {
				select {
				case <-stop:
					return
				default:
				}
				name := fmt.Sprintf("moved-%d", i)
				errs[i] = os.Rename(filepath.Join(m.Dir, regions[at%3], name), filepath.Join(m.Dir, regions[(at+1)%3], name))
			}
		})
	}
	repository := t.TempDir()
	first := c.backUp(t, repository)
	second := c.backUp(t, repository)
	close(stop)
	moving.Wait()
	require.NoError(t, errs[0])
	require.NoError(t, errs[1])
	require.NoError(t, errs[2])
	require.Equal(t, first.BlockCount, second.BlockCount)
	require.Greater(t, first.NewBytes, uint64(3<<20))
	require.Less(t, second.NewBytes, first.NewBytes/10, "the second backup stores only what has changed")
	out, err := c.Run(t.Context(), "backup", "verify", repository)
	require.NoError(t, err, out)
	require.NoError(t, m.Close())
	c.loseAll(t)

	c.restoreServers(t, repository, second.ID)
	out, err = c.Admin(t.Context(), "restore", "blocks", "--from", repository)
	require.NoError(t, err, out)
	require.NoError(t, m.Start(t.Context()))
	got := files(t, m.Dir)
	for i := range movers {
		var found []string
		for _, r := range regions {
			if content, ok := got[fmt.Sprintf("/%s/moved-%d", r, i)]; ok {
				require.Equal(t, random(byte(10+i), 200<<10), content)
				found = append(found, r)
				delete(got, fmt.Sprintf("/%s/moved-%d", r, i))
			}
		}
		require.Len(t, found, 1, "moved-%d", i)
	}
	require.Len(t, got, len(want))
	for path, content := range want {
		require.Equal(t, content, got[path], path)
	}
	require.NoError(t, os.WriteFile(filepath.Join(m.Dir, "west", "after"), []byte("new"), 0o644))
	require.NoError(t, os.Rename(filepath.Join(m.Dir, "west", "after"), filepath.Join(m.Dir, "eu", "after")))
	out, err = c.Run(t.Context(), "fsck", "--blocks", m.Dir)
	require.NoError(t, err, out)
	require.NoError(t, m.Close())

	// The directory of a server is not overwritten.
	out, err = c.Run(t.Context(), "restore", "metadata", "--from", repository, "--config", c.file())
	require.ErrorContains(t, err, "is not empty", out)
}
