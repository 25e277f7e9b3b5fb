package mount

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/globalfs/globalfs/internal/client"
)

// A worker does operations in a held directory and knows what the tree must have: each operation has its
// outcome exactly once, whatever dies meanwhile.
type heldWorker struct {
	dir    string
	random *rand.Rand
	files  map[string]string // contents, by the path below dir
	dirs   []string          // where it works
	old    map[string]string // files elsewhere
	made   int
}

func newHeldWorker(dir string, seed uint64) *heldWorker {
	return &heldWorker{dir: dir, random: rand.New(rand.NewPCG(seed, 1)), files: map[string]string{}, old: map[string]string{}}
}

// begin continues in a new directory, which the mount holds. After the death of a process, older directories
// are not held: changes there are ordered before they are answered, and may be executed twice if the process
// dies.
func (w *heldWorker) begin(name string) error {
	maps.Copy(w.old, w.files)
	clear(w.files)
	w.dirs = []string{name}
	return os.Mkdir(filepath.Join(w.dir, name), 0o755)
}

// any returns a file.
func (w *heldWorker) any() string {
	n := w.random.IntN(len(w.files))
	for name := range w.files {
		if n--; n < 0 {
			return name
		}
	}
	return ""
}

func (w *heldWorker) fresh() string {
	w.made++
	return filepath.Join(w.dirs[w.random.IntN(len(w.dirs))], fmt.Sprint("n", w.made))
}

// step does one operation. An error is an outcome that no local file system has.
func (w *heldWorker) step() error {
	path := func(name string) string { return filepath.Join(w.dir, name) }
	kind := w.random.IntN(10)
	if len(w.files) == 0 {
		kind = 9
	}
	switch kind {
	case 0:
		name := w.fresh()
		if err := os.Mkdir(path(name), 0o755); err != nil {
			return err
		}
		w.dirs = append(w.dirs, name)
	case 1, 2:
		name, to := w.any(), w.fresh()
		if err := os.Rename(path(name), path(to)); err != nil {
			return err
		}
		w.files[to] = w.files[name]
		delete(w.files, name)
	case 3:
		name := w.any()
		if err := os.Remove(path(name)); err != nil {
			return err
		}
		delete(w.files, name)
	case 4: // an append that is done twice would show
		name := w.any()
		f, err := os.OpenFile(path(name), os.O_WRONLY|os.O_APPEND, 0)
		if err != nil {
			return err
		}
		_, err = f.WriteString("more")
		if err := errors.Join(err, f.Close()); err != nil {
			return err
		}
		w.files[name] += "more"
	case 5:
		name, to := w.any(), w.fresh()
		if err := os.Link(path(name), path(to)); err != nil {
			return err
		}
		if err := os.Remove(path(name)); err != nil {
			return err
		}
		w.files[to] = w.files[name]
		delete(w.files, name)
	default:
		name := w.fresh()
		content := fmt.Sprintf("%s %0*d", name, w.random.IntN(9000), w.made)
		f, err := os.OpenFile(path(name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
		if err != nil {
			return err
		}
		_, err = f.WriteString(content)
		if err := errors.Join(err, f.Chmod(0o600), f.Close()); err != nil {
			return err
		}
		w.files[name] = content
	}
	return nil
}

// check compares the tree below root with what the worker knows.
func (w *heldWorker) check(t *testing.T, root string) {
	t.Helper()
	found := map[string]string{}
	require.NoError(t, filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		name, _ := filepath.Rel(root, path)
		found[name] = string(content)
		return err
	}))
	want := maps.Clone(w.old)
	maps.Copy(want, w.files)
	if !maps.Equal(want, found) {
		for name, content := range want {
			require.Equal(t, content, found[name], name)
		}
		require.Equal(t, want, found)
	}
	for _, dir := range w.dirs {
		info, err := os.Stat(filepath.Join(root, dir))
		require.NoError(t, err)
		require.True(t, info.IsDir())
	}
}

// The process that serves a mount with held directories is killed repeatedly, while programs create, rename,
// link, write and remove files there. The log holder keeps the log: each operation that was answered to a
// program is executed exactly once.
func TestKilledHoldingDaemon(t *testing.T) {
	mounts := 3
	if testing.Short() {
		mounts = 1
	}
	var restored int64
	for range mounts {
		restored += killWhileHolding(t)
	}
	require.Positive(t, restored, "no process died with a log: the test shows nothing")
}

// killWhileHolding kills the serving process as often as one holder starts another. It returns the number of
// operations that a dead process has answered and the next process has ordered.
func killWhileHolding(t *testing.T) int64 {
	h := holdHere(t, role{Holding: true})
	other := mountOf(t, h.Network)
	const kills = 4
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	var workers []*heldWorker
	for i := range 4 {
		dir := h.path(fmt.Sprint("w", i))
		require.NoError(t, os.Mkdir(dir, 0o755))
		workers = append(workers, newHeldWorker(dir, seed+uint64(i)))
	}
	var restored, steps atomic.Int64
	for round := range kills {
		var all sync.WaitGroup
		var stop atomic.Bool
		failed := make(chan error, len(workers))
		for i, w := range workers {
			require.NoError(t, w.begin(fmt.Sprintf("r%d", round)))
			all.Go(func() {
				for !stop.Load() {
					if err := w.step(); err != nil {
						failed <- fmt.Errorf("round %d, worker %d: %w", round, i, err)
						return
					}
					steps.Add(1)
				}
			})
		}
		before := steps.Load()
		require.Eventually(t, func() bool { return steps.Load() > before+50 || len(failed) > 0 }, 30*time.Second, time.Millisecond)
		h.kill(t)
		require.Eventually(t, func() bool { return len(h.pids(t)) == round+2 }, 30*time.Second, time.Millisecond)
		before = steps.Load()
		require.Eventually(t, func() bool { return steps.Load() > before+20 || len(failed) > 0 }, 60*time.Second, time.Millisecond)
		restored.Add(int64(h.holding(t).Restored))
		stop.Store(true)
		all.Wait()
		close(failed)
		for err := range failed {
			require.NoError(t, err)
		}
		require.Zero(t, h.holding(t).Lost)
	}
	_, err := unix.Getxattr(h.role.Dir, XattrSync, make([]byte, 4096))
	require.NoError(t, err)
	token := make([]byte, 64<<10)
	n, err := unix.Getxattr(h.role.Dir, XattrToken, token)
	require.NoError(t, err)
	require.NoError(t, unix.Setxattr(other.dir, XattrWait, token[:n], 0))
	for i, w := range workers {
		w.check(t, w.dir)
		w.check(t, other.path(fmt.Sprint("w", i)))
	}
	t.Logf("%d operations, %d were answered by a dead process and ordered by the next one", steps.Load(), restored.Load())
	return restored.Load()
}

// holding returns the counts of the process that serves.
func (s *served) holding(t *testing.T) client.Holding {
	t.Helper()
	var c Counters
	text := make([]byte, 64<<10)
	n, err := unix.Getxattr(s.role.Dir, XattrCounters, text)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text[:n], &c))
	return c.Holding
}
