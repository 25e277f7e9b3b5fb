package meta

import (
	"iter"

	"github.com/globalfs/globalfs/internal/invariant"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/varint"
)

// A Task stays in the partition in which it was made, even after its directory has moved, because the process
// that executes it asks there.

func taskKey(dir posix.Ino) []byte { return numberKey(prefixTask, uint64(dir)) }

// task returns the task of a directory, if there is one here.
func (m *Machine) task(dir posix.Ino) (Task, bool) {
	b := m.keys.Get(taskKey(dir))
	if b == nil {
		return Task{}, false
	}
	t, err := decodeTask(dir, b)
	invariant.Check(err == nil, "stored task of %d: %v", dir, err)
	return t, true
}

// addTask adds the task to move everything below dir to partition target. It replaces an earlier task of dir.
func (m *Machine) addTask(dir posix.Ino, target uint16) {
	m.setTask(&Task{Dir: dir, Target: target})
}

func (m *Machine) setTask(t *Task) { m.keys.Set(taskKey(t.Dir), t.encode()) }

// updateTask executes an OpTask: an operator pauses or resumes a task, or the mover reports its progress.
func (m *Machine) updateTask(c *Command) Result {
	t, found := m.task(c.Ino)
	if !found || t.Target != c.Target {
		return failed(posix.ENOENT) // the report is about an earlier task of the directory
	}
	if !m.ownsRow(c.Ino, c) || c.Authority != nil && (c.Length != 0 || c.Flags != TaskPause && c.Flags != TaskResume) {
		return failed(posix.EPERM) // only a mover reports progress
	}
	switch c.Flags {
	case 0:
	case TaskPause:
		t.Paused = true
	case TaskResume:
		t.Paused = false
	case TaskDone:
		m.keys.Delete(taskKey(t.Dir))
		return Result{}
	default:
		return failed(posix.EINVAL)
	}
	t.Moved = max(t.Moved, c.Length) // the command of an operator has 0
	m.setTask(&t)
	return Result{}
}

// tasks returns a page of the tasks.
func (m *Machine) tasks(c *Command) Result {
	var page []Task
	for key, value := range m.rowsAfter(prefixTask, c) {
		t, err := decodeTask(inoOf(key), value)
		invariant.Check(err == nil, "stored task of %d: %v", inoOf(key), err)
		page = append(page, t)
	}
	return Result{Data: AppendTasks(nil, page), Number: uint64(len(page))}
}

// rowsAfter yields the keys with a prefix after the key of c.Ino: at most c.Length, or as many as an answer
// holds if that is 0.
func (m *Machine) rowsAfter(prefix byte, c *Command) iter.Seq2[[]byte, []byte] {
	left := min(c.Length, MaxRows)
	if left == 0 {
		left = MaxRows
	}
	return func(yield func(key, value []byte) bool) {
		for key, value := range m.keys.Scan(after(prefix, c.Ino), []byte{prefix + 1}) {
			switch {
			case !m.ownsRow(inoOf(key), c):
			case left == 0 || !yield(key, value):
				return
			default:
				left--
			}
		}
	}
}

func (t *Task) encode() []byte {
	b := varint.AppendUint(nil, t.Target)
	b = varint.AppendUint(b, t.Moved)
	return appendBool(b, t.Paused)
}

func decodeTask(dir posix.Ino, b []byte) (Task, error) {
	r := varint.NewReader(b)
	t := readTask(r, dir)
	return t, r.Done()
}

func readTask(r *varint.Reader, dir posix.Ino) Task {
	return Task{Dir: dir, Target: r.Uint16(), Moved: r.Uint64(), Paused: r.Uint(1) == 1}
}

func appendBool(b []byte, v bool) []byte {
	if v {
		return append(b, 1)
	}
	return append(b, 0)
}
