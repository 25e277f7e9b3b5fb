package cluster

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/globalfs/globalfs/internal/client"
	"github.com/globalfs/globalfs/internal/mount"
)

// A mount that holds directories: another process takes the mount over, a server crashes, another mount
// changes a held directory, and the process of the mount is killed. Nothing is lost that globalfs sync has
// covered, and another mount sees exactly the tree of the holder.
func TestDelegate(t *testing.T) {
	t.Parallel()
	c := start(t)
	dir, other := t.TempDir(), t.TempDir()
	t.Cleanup(func() {
		_ = unix.Unmount(dir, unix.MNT_DETACH) // of a failed test
		_ = unix.Unmount(other, unix.MNT_DETACH)
	})
	args := []string{"mount", c.Address("easta") + ":/east", dir, "--certs", c.Certs(), "--region", "east", "--delegate"}
	code, said := c.ranAs(t, "globalfs", args...)
	require.Zero(t, code, said)
	code, said = c.ranAs(t, "globalfs", "mount", c.Address("easta")+":/east", other, "--certs", c.Certs(), "--region", "east")
	require.Zero(t, code, said)

	require.NoError(t, os.Mkdir(filepath.Join(dir, "t"), 0o755))
	fill(t, filepath.Join(dir, "t", "a"), 100)
	require.Positive(t, holding(t, dir).Directories)
	code, said = c.ranAs(t, "globalfs", append(args, "--take-over")...)
	require.Zero(t, code, said)
	require.Eventually(t, func() bool { return len(serving(t, dir)) == 1 }, 30*time.Second, 10*time.Millisecond)
	fill(t, filepath.Join(dir, "t", "b"), 100)
	fill(t, filepath.Join(dir, "t", "c"), 100)
	c.Servers["easta"].Kill()
	require.NoError(t, c.Servers["easta"].Start(t.Context()))
	require.NoError(t, os.RemoveAll(filepath.Join(dir, "t", "b")))
	code, said = c.ranAs(t, "globalfs", "sync", dir)
	require.Zero(t, code, said)
	require.Equal(t, tree(t, dir), tree(t, other))
	require.Zero(t, holding(t, dir).Lost)

	fill(t, filepath.Join(dir, "t", "d"), 50)
	require.Positive(t, holding(t, dir).Directories)
	require.Eventually(t, func() bool {
		_, err := os.Stat(filepath.Join(other, "t", "d"))
		return err == nil
	}, 30*time.Second, 10*time.Millisecond, "the other mount sees the ordered state")
	require.NoError(t, os.WriteFile(filepath.Join(other, "t", "d", "foreign"), []byte("x"), 0o644), "it waits until the holder returns the directory")
	require.Positive(t, holding(t, dir).Recalls)
	require.Eventually(t, func() bool {
		_, err := os.Stat(filepath.Join(dir, "t", "d", "foreign"))
		return err == nil
	}, 30*time.Second, 10*time.Millisecond)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "t", "d", "own"), []byte("y"), 0o644))
	code, said = c.ranAs(t, "globalfs", "sync", dir)
	require.Zero(t, code, said)
	require.Eventually(t, func() bool { return len(tree(t, other)) == len(tree(t, dir)) }, 30*time.Second, 10*time.Millisecond)
	before := tree(t, dir)
	require.Equal(t, before, tree(t, other))

	require.NoError(t, os.Mkdir(filepath.Join(dir, "lost"), 0o755))
	fill(t, filepath.Join(dir, "lost", "e"), 20)
	require.NoError(t, unix.Kill(holding(t, dir).PID, unix.SIGKILL))
	require.NoError(t, os.WriteFile(filepath.Join(other, "lost", "free"), nil, 0o644), "the hold of a dead mount ends")
	delete(before, ".") // it has got another name since
	after := tree(t, other)
	for path, want := range before {
		require.Equal(t, want, after[path], path)
	}
	_ = unix.Unmount(dir, unix.MNT_DETACH) // the dead mount, unless the process had ended it
	code, said = c.ranAs(t, "globalfs", "umount", other)
	require.Zero(t, code, said)
}

// The process that serves a supervised mount is killed while it holds directories and a program works there.
// The program notices nothing, and both mounts show what it has done.
func TestDelegateSupervised(t *testing.T) {
	t.Parallel()
	c := start(t)
	dir, other := t.TempDir(), t.TempDir()
	t.Cleanup(func() {
		_ = unix.Unmount(dir, unix.MNT_FORCE|unix.MNT_DETACH) // of a failed test
		_ = unix.Unmount(other, unix.MNT_DETACH)
	})
	at := []string{"--certs", c.Certs(), "--region", "east"}
	code, said := c.ranAs(t, "globalfs", append([]string{"mount", c.Address("easta") + ":/east", dir, "--delegate", "--supervise"}, at...)...)
	require.Zero(t, code, said)
	code, said = c.ranAs(t, "globalfs", append([]string{"mount", c.Address("easta") + ":/east", other}, at...)...)
	require.Zero(t, code, said)
	var restored uint64
	for round := range 4 { // a holder gives up at the fifth death within a minute each
		top := filepath.Join(dir, fmt.Sprint("t", round))
		require.NoError(t, os.Mkdir(top, 0o755))
		h := holding(t, dir)
		require.Positive(t, h.Directories)
		var killed atomic.Bool
		time.AfterFunc(time.Duration(20+rand.IntN(200))*time.Millisecond, func() {
			_ = unix.Kill(h.PID, unix.SIGKILL)
			killed.Store(true)
		})
		for i := 0; !killed.Load(); i++ {
			fill(t, filepath.Join(top, fmt.Sprint(i)), 20)
		}
		now := holding(t, dir)
		require.NotEqual(t, h.PID, now.PID)
		require.Zero(t, now.Lost)
		restored += now.Restored
	}
	code, said = c.ranAs(t, "globalfs", "sync", dir)
	require.Zero(t, code, said)
	require.Eventually(t, func() bool { return len(tree(t, other)) == len(tree(t, dir)) }, 30*time.Second, 10*time.Millisecond)
	require.Equal(t, tree(t, dir), tree(t, other))
	t.Logf("%d changes were answered by a process that was killed, and ordered by the next one", restored)
	for _, d := range []string{dir, other} {
		code, said = c.ranAs(t, "globalfs", "umount", d)
		require.Zero(t, code, said)
	}
}

// fill makes a directory with files, some of which get other names, modes and times, or are removed.
func fill(t *testing.T, dir string, files int) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "sub"), 0o755))
	for i := range files {
		path := filepath.Join(dir, fmt.Sprint(i))
		require.NoError(t, os.WriteFile(path, fmt.Appendf(nil, "%0*d", 1+i*100, i), 0o644))
		switch i % 5 {
		case 0:
			require.NoError(t, os.Rename(path, filepath.Join(dir, "sub", fmt.Sprint(i))))
		case 1:
			require.NoError(t, os.Chmod(path, 0o600))
		case 2:
			require.NoError(t, os.Chtimes(path, time.Unix(int64(i), 0), time.Unix(int64(i), 5)))
		case 3:
			require.NoError(t, os.Remove(path))
		default:
			require.NoError(t, os.Symlink(path, path+".link"))
		}
	}
}

// tree returns all paths of a mount below its directory with their attributes and contents.
func tree(t *testing.T, root string) map[string]string {
	t.Helper()
	all := map[string]string{}
	require.NoError(t, filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		var stat unix.Stat_t
		if err := unix.Lstat(path, &stat); err != nil {
			return err
		}
		text := fmt.Sprint(stat.Ino, stat.Mode, stat.Nlink, stat.Size, stat.Mtim, stat.Ctim)
		if e.Type().IsRegular() {
			content, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			text += string(content)
		}
		rel, err := filepath.Rel(root, path)
		all[rel] = text
		return err
	}))
	return all
}

// holding returns the counts of held directories of a mount.
func holding(t *testing.T, dir string) (h held) {
	t.Helper()
	text := make([]byte, 64<<10)
	n, err := unix.Getxattr(dir, mount.XattrCounters, text)
	require.NoError(t, err)
	var counters mount.Counters
	require.NoError(t, json.Unmarshal(text[:n], &counters))
	return held{counters.Holding, counters.PID}
}

// held has the counts of held directories of a mount, and its process.
type held struct {
	client.Holding
	PID int
}
