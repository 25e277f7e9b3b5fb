package cluster

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/globalfs/globalfs/test/wan"
)

// cutLab starts a cluster of three regions in a laboratory, with mounts in the west.
func cutLab(t *testing.T, flags ...[]string) (lab *wan.Lab, mounts []string) {
	t.Helper()
	lab, err := wan.New(wan.Config{Hosts: []wan.Host{
		{Name: "westa", Region: "west"}, {Name: "laptop", Region: "west"}, {Name: "easta", Region: "east"}, {Name: "eua", Region: "eu"},
	}})
	if errors.Is(err, wan.ErrUnavailable) {
		t.Skip(err)
	}
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, lab.Close()) })
	c := startWith(t, Config{Lab: lab, Durability: "sync"})
	for _, f := range flags {
		m, err := c.Mount(t.Context(), "west", "laptop", filepath.Join(t.TempDir(), "tree"), f...)
		require.NoError(t, err)
		mounts = append(mounts, m.Dir)
	}
	return lab, mounts
}

// farWriter is a program with an open file.
type farWriter struct {
	start io.Closer // makes the program write
	ended chan struct{}
}

// openFar starts a program that opens a file.
func openFar(t *testing.T, path string) *farWriter {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "bash", "-c", `exec 3>"$0" && echo open && read line; exec head -c 12M /dev/zero >&3`, path)
	start, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	_, err = io.ReadFull(out, make([]byte, len("open\n")))
	require.NoError(t, err)
	w := &farWriter{start, make(chan struct{})}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-w.ended
	})
	go func() {
		defer close(w.ended)
		_ = cmd.Wait()
	}()
	return w
}

// write makes the program write 12 MiB.
func (w *farWriter) write(t *testing.T) {
	t.Helper()
	require.NoError(t, w.start.Close())
}

// workAlone works with a file of 1 MiB and a directory, and returns the times of the steps.
func workAlone(t *testing.T, dir string, i int) (took map[string]time.Duration) {
	t.Helper()
	took = map[string]time.Duration{}
	do := func(step string, f func() error) {
		began := time.Now()
		require.NoError(t, f(), step)
		took[step] = time.Since(began)
	}
	path := filepath.Join(dir, fmt.Sprint(i))
	var f *os.File
	lock := unix.Flock_t{Type: unix.F_WRLCK}
	do("create", func() (err error) { f, err = os.Create(path); return err })
	do("lock", func() error { return unix.FcntlFlock(f.Fd(), unix.F_SETLK, &lock) })
	do("write", func() error { _, err := f.Write(make([]byte, 1<<20)); return err })
	lock.Type = unix.F_UNLCK
	do("unlock", func() error { return unix.FcntlFlock(f.Fd(), unix.F_SETLK, &lock) })
	do("fsync", f.Sync)
	do("close", f.Close)
	do("rename", func() error { return os.Rename(path, path+".done") })
	do("read", func() error { _, err := os.ReadFile(path + ".done"); return err })
	do("list", func() error { _, err := os.ReadDir(filepath.Dir(dir)); return err })
	do("list the root", func() error { _, err := os.ReadDir(filepath.Join(dir, "../..")); return err })
	do("statfs", func() error { return unix.Statfs(dir, new(unix.Statfs_t)) })
	do("setxattr", func() error { return unix.Setxattr(path+".done", "user.a", []byte("1"), 0) })
	do("mkdir", func() error { return os.Mkdir(path, 0o755) })
	do("symlink", func() error { return os.Symlink("x", filepath.Join(path, "link")) })
	do("link", func() error { return os.Link(path+".done", path+".other") })
	do("truncate", func() error { return os.Truncate(path+".other", 1000) })
	do("remove", func() error {
		return errors.Join(os.Remove(path+".done"), os.Remove(path+".other"), os.RemoveAll(path))
	})
	return took
}

// A mount works in the directories of its region while the network to the other regions is cut, although
// programs also write to other regions and to global directories, before and during the cut, and hang. Two
// operations wait for some seconds: the first release of a lock, and the first fsync.
func TestLocalWorkInACut(t *testing.T) {
	lab, mounts := cutLab(t, []string{"--timeout=2m"}, []string{"--timeout=2m", "--hard"})
	var near []string
	var writers []*farWriter
	for i, tree := range mounts {
		dirs := map[string]string{}
		for _, at := range []string{"west", "east", "."} {
			dirs[at] = filepath.Join(tree, at, fmt.Sprint(i))
			require.NoError(t, os.Mkdir(dirs[at], 0o755))
		}
		near = append(near, dirs["west"])
		workAlone(t, dirs["west"], 0)
		for n := range 8 { // together more than the memory for far content
			writers = append(writers, openFar(t, filepath.Join(dirs[[]string{"east", "."}[n%2]], fmt.Sprint(n))))
		}
	}
	require.NoError(t, lab.Cut("west"))
	t.Cleanup(func() { require.NoError(t, lab.Heal()) }) // before the mounts end
	for _, w := range writers {
		w.write(t)
	}
	for _, dir := range near {
		var waits []string
		for i := 1; i <= 10; i++ {
			for step, took := range workAlone(t, dir, i) {
				if took > 4500*time.Millisecond {
					waits = append(waits, step)
					require.Less(t, took, 20*time.Second, step)
				}
			}
		}
		require.Contains(t, waits, "fsync", "the cut has an effect")
		require.Subset(t, []string{"fsync", "unlock"}, waits)
		require.LessOrEqual(t, len(waits), 2)
	}
	hang := 0
	for _, w := range writers {
		select {
		case <-w.ended:
		default:
			hang++
		}
	}
	require.NotZero(t, hang, "far content fills its part of the memory")
}
