package meta_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
)

func (f *fs) tasks(after posix.Ino, limit uint64) []meta.Task {
	f.t.Helper()
	r := f.do(meta.Command{Op: meta.OpTasks, Ino: after, Length: limit})
	tasks, err := meta.DecodeTasks(r.Data)
	require.NoError(f.t, err)
	require.EqualValues(f.t, len(tasks), r.Number)
	return tasks
}

// move asks for all that is in dir to go to target.
func (f *fs) move(dir posix.Ino, target uint16) {
	f.t.Helper()
	c := placeCommand(dir, meta.Rule{Region: "r"})
	c.Flags, c.Target = meta.PlaceMove, target
	f.must(c)
}

func TestTask(t *testing.T) {
	f := newFS(t)
	dir := f.mkdir(posix.Root, "dir")
	target := uint16(2)
	tell := func(flags uint32, moved uint64) {
		f.must(meta.Command{Op: meta.OpTask, Ino: dir, Target: target, Flags: flags, Length: moved})
	}
	f.fails(posix.ENOENT, meta.Command{Op: meta.OpTask, Ino: dir})
	f.move(dir, 0)
	require.Empty(t, f.tasks(0, 0), "it is there already")

	f.move(dir, 2)
	require.Equal(t, []meta.Task{{Dir: dir, Target: 2}}, f.tasks(0, 0))
	tell(0, 5)
	tell(meta.TaskPause, 0)
	require.Equal(t, []meta.Task{{Dir: dir, Target: 2, Moved: 5, Paused: true}}, f.tasks(0, 0))
	tell(meta.TaskResume, 7)
	require.Equal(t, []meta.Task{{Dir: dir, Target: 2, Moved: 7}}, f.tasks(0, 0))
	f.fails(posix.EINVAL, meta.Command{Op: meta.OpTask, Ino: dir, Target: 2, Flags: meta.TaskPause | meta.TaskDone})

	f.move(dir, 1)
	require.Equal(t, []meta.Task{{Dir: dir, Target: 1}}, f.tasks(0, 0), "the newer task")
	f.fails(posix.ENOENT, meta.Command{Op: meta.OpTask, Ino: dir, Target: 2, Flags: meta.TaskDone})
	f.move(dir, 0)
	require.Equal(t, []meta.Task{{Dir: dir, Target: 0}}, f.tasks(0, 0), "what has gone comes back")
	target = 0
	tell(meta.TaskDone, 0)
	require.Empty(t, f.tasks(0, 0))
}

func TestTasksInPages(t *testing.T) {
	f := newFS(t)
	var dirs []posix.Ino
	for _, name := range []string{"a", "b", "c"} {
		dirs = append(dirs, f.mkdir(posix.Root, name))
		f.move(dirs[len(dirs)-1], 1)
	}
	page := f.tasks(0, 2)
	require.Equal(t, []meta.Task{{Dir: dirs[0], Target: 1}, {Dir: dirs[1], Target: 1}}, page)
	require.Equal(t, []meta.Task{{Dir: dirs[2], Target: 1}}, f.tasks(page[1].Dir, 2))
	require.Empty(t, f.tasks(dirs[2], 2))
}

func TestRowsDoNotDecode(t *testing.T) {
	for _, b := range [][]byte{nil, {1}, {0, 0}, {1, 2, 3, 4, 2}} {
		_, err := meta.DecodeTasks(b)
		require.Error(t, err, "%x", b)
		_, err = meta.DecodePlacements(b)
		require.Error(t, err, "%x", b)
	}
}
