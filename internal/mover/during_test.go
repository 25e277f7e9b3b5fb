package mover_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/block"
	"github.com/globalfs/globalfs/internal/client"
	"github.com/globalfs/globalfs/internal/client/clienttest"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/mover"
	"github.com/globalfs/globalfs/internal/posix"
)

// slowly is a configuration with a slow move, so that much can happen meanwhile.
var slowly = mover.Config{PerSecond: 5, Parallel: 2}

// moved returns the number of moved inodes of the only task, ok false if there is none.
func (w *world) moved() (n uint64, ok bool) {
	tasks := w.tasks()
	if len(tasks) == 0 {
		return 0, false
	}
	require.Len(w, tasks, 1)
	return tasks[0].Moved, true
}

// fill makes a directory with the given number of files, each with its name as content.
func (w *world) fill(dir posix.Ino, files int) (inos []posix.Ino) {
	w.Helper()
	for i := range files {
		name := fmt.Sprintf("f%d", i)
		inos = append(inos, w.file(dir, name, []byte(name)))
	}
	return inos
}

// Clients append, read, make, rename and remove while the subtree moves: nothing is lost, and all ends at the
// target.
func TestSubtreeIsInUseMeanwhile(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		top := w.mkdir(posix.Root, "top")
		sub := w.mkdir(top, "sub")
		w.fill(top, 40)
		w.fill(sub, 40)
		log := w.file(sub, "log", nil)
		w.place(top, west)
		defer w.start(slowly)()

		ctx, cancel := context.WithCancel(t.Context())
		var busy sync.WaitGroup
		lines, made := 0, 0
		busy.Go(func() { // appended data is there, in order
			for ; ctx.Err() == nil; lines++ {
				_, err := w.Client.Write(t.Context(), root, client.Write{Ino: log, Data: bytes.Repeat([]byte{byte(lines)}, 5000), Append: true})
				require.NoError(t, err)
				time.Sleep(50 * time.Millisecond)
			}
		})
		other := w.newClient()
		busy.Go(func() { // names appear, move and disappear
			for ; ctx.Err() == nil; made++ {
				from, to := client.Name{Dir: top, Name: fmt.Sprintf("n%d", made)}, client.Name{Dir: sub, Name: fmt.Sprintf("m%d", made)}
				a, err := other.Create(t.Context(), root, from, 0o644, meta.Exclusive)
				require.NoError(t, err)
				_, err = other.Write(t.Context(), root, client.Write{Ino: a.Ino, Data: []byte("new")})
				require.NoError(t, err)
				other.Release(a.Ino)
				require.NoError(t, other.Rename(t.Context(), root, from, to, 0))
				if made%3 == 0 {
					require.NoError(t, other.Unlink(t.Context(), root, to))
				}
				time.Sleep(70 * time.Millisecond)
			}
		})
		w.until("half of it is moved", func() bool { n, ok := w.moved(); return !ok || n > 40 })
		_, going := w.moved()
		require.True(t, going, "it was in use meanwhile")
		w.untilMoved()
		cancel()
		busy.Wait()

		require.Greater(t, lines, 50)
		require.Greater(t, made, 50)
		content := w.content(log)
		require.Len(t, content, 5000*lines)
		for i := range lines {
			require.Equal(t, byte(i), content[5000*i])
		}
		require.Equal(t, 42, w.countAt(1, top)+1, "41 entries in top")
		require.Equal(t, 41+made-(made+2)/3, w.countAt(1, sub))
		w.requireSound()
	})
}

// countAt requires all inodes with a name in a directory to be in a partition, and returns their number.
func (w *world) countAt(partition uint16, dir posix.Ino) (n int) {
	w.Helper()
	for cookie := uint64(0); ; {
		entries, _, err := w.ReadDir(w.Context(), dir, cookie, 100)
		require.NoError(w, err)
		if len(entries) == 0 {
			return n
		}
		for _, e := range entries {
			w.requireAt(partition, e.Attr.Ino)
		}
		n += len(entries)
		cookie = entries[len(entries)-1].Cookie
	}
}

// An open file without a name neither moves nor is lost; one with a name stays open.
func TestOpenFiles(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		top := w.mkdir(posix.Root, "top")
		kept, unnamed := w.file(top, "kept", large(1)), w.file(top, "unnamed", large(2))
		for _, ino := range []posix.Ino{kept, unnamed} {
			_, err := w.Open(t.Context(), ino)
			require.NoError(t, err)
		}
		require.NoError(t, w.Unlink(t.Context(), root, client.Name{Dir: top, Name: "unnamed"}))
		w.place(top, west)
		defer w.start(mover.Config{})()
		w.untilMoved()
		require.NoError(t, w.Unlink(t.Context(), root, client.Name{Dir: top, Name: "kept"}))
		time.Sleep(5 * time.Minute) // more than a lease
		w.write(kept, 0, []byte("still"))
		require.Equal(t, append([]byte("still"), large(1)[5:]...), w.content(kept))
		require.True(t, bytes.Equal(large(2), w.content(unnamed)))
		w.requireAt(1, kept)
		w.Release(kept)
		w.Release(unnamed)
		w.until("nobody holds them", func() bool {
			_, first := w.GetAttr(t.Context(), kept)
			_, second := w.GetAttr(t.Context(), unnamed)
			return errors.Is(first, posix.ESTALE) && errors.Is(second, posix.ESTALE)
		})
		w.requireSound()
	})
}

func TestPauseAndResume(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		top := w.mkdir(posix.Root, "top")
		files := w.fill(top, 100)
		w.place(top, west)
		defer w.start(slowly)()
		w.until("it is under way", func() bool { n, _ := w.moved(); return n > 10 })
		task := client.PartitionTask{Task: meta.Task{Dir: top, Target: 1}}
		require.NoError(t, w.SetTask(t.Context(), task, meta.TaskPause))
		time.Sleep(10 * time.Second) // it polls every two
		paused, ok := w.moved()
		require.True(t, ok)
		time.Sleep(time.Hour)
		still, _ := w.moved()
		require.Equal(t, paused, still)
		require.Less(t, still, uint64(100))
		require.NoError(t, w.SetTask(t.Context(), task, meta.TaskResume))
		w.untilMoved()
		w.requireAt(1, files...)
		require.Contains(t, w.log.String(), "moved=101")
	})
}

// Another mover continues from the point where one has stopped, and its count.
func TestRestart(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		top := w.mkdir(posix.Root, "top")
		files := w.fill(top, 100)
		w.place(top, west)
		stop := w.start(slowly)
		w.until("it is under way", func() bool { n, _ := w.moved(); return n > 10 })
		stop()
		before, ok := w.moved()
		require.True(t, ok)
		time.Sleep(time.Minute)
		after, _ := w.moved()
		require.Equal(t, before, after, "nobody moves anything")
		defer w.start(mover.Config{})()
		defer w.start(mover.Config{})() // and two do no harm
		w.untilMoved()
		w.requireAt(1, files...)
		w.requireSound()
	})
}

// A mover works on a task only while the task is assigned to it.
func TestOnlyItsOwn(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		top := w.mkdir(posix.Root, "top")
		files := w.fill(top, 100)
		w.place(top, west)
		defer w.start(mover.Config{Mine: func(partition uint16) bool { return partition == 2 }})()
		time.Sleep(time.Minute)
		w.requireAt(0, top)

		var mine atomic.Bool
		mine.Store(true)
		cfg := slowly
		cfg.Mine = func(partition uint16) bool { return partition == 0 && mine.Load() }
		defer w.start(cfg)()
		w.until("it is under way", func() bool { n, _ := w.moved(); return n > 10 })
		mine.Store(false)
		time.Sleep(10 * time.Second)
		before, _ := w.moved()
		time.Sleep(time.Minute)
		after, ok := w.moved()
		require.True(t, ok)
		require.Equal(t, before, after)
		mine.Store(true)
		w.untilMoved()
		w.requireAt(1, files...)
	})
}

// A target that cannot be reached delays its task, but no other.
func TestUnreachable(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		cut, well := w.mkdir(posix.Root, "cut"), w.mkdir(posix.Root, "well")
		files := w.fill(cut, 30)
		away := w.network.Processes(2, west)
		w.place(cut, east)
		w.place(well, west)
		w.network.Fail(clienttest.Down, away...)
		defer w.start(mover.Config{})()
		w.until("the other one is moved", func() bool {
			tasks, err := w.PartitionTasks(t.Context(), 0)
			require.NoError(t, err)
			return len(tasks) == 1
		})
		w.requireAt(1, well)
		time.Sleep(10 * time.Minute)
		require.Contains(t, w.log.String(), "cannot be moved on")
		w.network.Fail(clienttest.None, away...)
		w.untilMoved()
		w.requireAt(2, files...)
		w.requireSound()
	})
}

// If its blocks cannot be copied, a file stays in its partition until they can.
func TestStorageIsFull(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		top := w.mkdir(posix.Root, "top")
		big, small := w.file(top, "a big one", large(1)), w.file(top, "small", nil)
		w.blocks[1].Fail(block.ErrNoSpace)
		w.place(top, west)
		defer w.start(mover.Config{})()
		w.until("the small one is moved", func() bool { _, at, err := w.Where(t.Context(), small); return err == nil && at == 1 })
		time.Sleep(time.Hour)
		w.requireAt(0, big)
		require.Contains(t, w.log.String(), fmt.Sprintf("inode %d: %v", big, posix.ENOSPC))
		w.blocks[1].Fail(nil)
		w.untilMoved()
		w.requireAt(1, big)
	})
}
