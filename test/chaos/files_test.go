package chaos

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// states are the possible contents of a file: more than one after an operation in doubt. absent stands for no
// file.
type states map[string]bool

const absent = "\x00absent"

func only(content string) states { return states{content: true} }

func (s states) or(other states) states {
	all := maps.Clone(s)
	maps.Copy(all, other)
	return all
}

// maxStates is the number of possible contents above which a file is replaced.
const maxStates = 6

// fileWorker changes files in its own directories, and knows their possible contents.
type fileWorker struct {
	dirs    []string          // its directory in each of its partitions, on its mount
	model   map[string]states // by "directory index/name"
	rng     *rand.Rand
	tally   *tally
	written int
}

// tally counts the outcomes of the workers' operations.
type tally struct {
	mu     sync.Mutex
	done   int                   // GUARDED_BY mu; operations acknowledged
	doubt  map[syscall.Errno]int // GUARDED_BY mu; operations with a permitted error
	wrong  []string              // GUARDED_BY mu; violations
	builds int                   // GUARDED_BY mu; programs compiled and run
	broken int                   // GUARDED_BY mu; compilations with a permitted error
}

func (t *tally) acknowledged() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.done
}

// results returns all results except the load over time.
func (t *tally) results(events []event) *results {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := &results{Seed: *seed, Seconds: duration.Seconds(), Done: t.done, Doubt: map[string]int{}, Builds: t.builds, Broken: t.broken, Events: events}
	for errno, n := range t.doubt {
		r.Doubt[unix.ErrnoName(errno)] = n
	}
	return r
}

func (t *tally) violation(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.wrong) < 20 {
		t.wrong = append(t.wrong, fmt.Sprintf(format, args...))
	}
}

// permitted are the errors that a soft mount may return during faults.
var permitted = []syscall.Errno{syscall.EIO, syscall.ETIMEDOUT, syscall.ENOSPC}

// outcome records the outcome of an operation, and reports whether it was acknowledged. Otherwise it may have
// been executed or not.
func (t *tally) outcome(what string, err error) (done bool) {
	t.mu.Lock()
	if err == nil {
		t.done++
		t.mu.Unlock()
		return true
	}
	var errno syscall.Errno
	if errors.As(err, &errno) && slices.Contains(permitted, errno) {
		t.doubt[errno]++
		t.mu.Unlock()
		return false
	}
	t.mu.Unlock()
	t.violation("%s: %v", what, err)
	return false
}

func newFileWorker(seed uint64, t *tally, dirs ...string) (*fileWorker, error) {
	w := &fileWorker{dirs: dirs, model: map[string]states{}, rng: rand.New(rand.NewPCG(seed, 0)), tally: t}
	for _, dir := range dirs {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return nil, err
		}
	}
	return w, nil
}

// run works until ctx ends.
func (w *fileWorker) run(ctx context.Context) {
	for ctx.Err() == nil {
		switch w.rng.IntN(10) {
		case 0, 1, 2:
			w.replace(w.any())
		case 3, 4:
			w.append(w.any())
		case 5:
			w.remove(w.any())
		case 6:
			w.rename(w.any(), w.any())
		default:
			w.check(w.any())
		}
	}
}

const namesInDir = 12

// any draws a file.
func (w *fileWorker) any() string {
	return fmt.Sprintf("%d/f%d", w.rng.IntN(len(w.dirs)), w.rng.IntN(namesInDir))
}

func (w *fileWorker) path(file string) string {
	var dir int
	var name string
	if _, err := fmt.Sscanf(file, "%d/%s", &dir, &name); err != nil {
		panic(err)
	}
	return filepath.Join(w.dirs[dir], name)
}

func (w *fileWorker) of(file string) states {
	if s := w.model[file]; s != nil {
		return s
	}
	return only(absent)
}

// content returns a content that is new for this worker.
func (w *fileWorker) content() string {
	w.written++
	b := make([]byte, 1+w.rng.IntN(20_000))
	pattern := fmt.Appendf(nil, "<%d>", w.written)
	for i := 0; i < len(b); i += len(pattern) {
		copy(b[i:], pattern)
	}
	return string(b)
}

// replace replaces a file by a rename: the file has the old content or the new one.
func (w *fileWorker) replace(file string) {
	content := w.content()
	path := w.path(file)
	temporary := filepath.Join(filepath.Dir(path), "new")
	if !w.tally.outcome("write "+temporary, os.WriteFile(temporary, []byte(content), 0o644)) {
		return
	}
	if w.tally.outcome("rename to "+path, os.Rename(temporary, path)) {
		w.model[file] = only(content)
	} else {
		w.model[file] = w.of(file).or(only(content))
	}
}

// append adds a record.
func (w *fileWorker) append(file string) {
	if len(w.of(file)) > maxStates {
		w.replace(file)
		return
	}
	w.written++
	record := fmt.Sprintf("[%d]", w.written)
	path := w.path(file)
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if errors.Is(err, fs.ErrNotExist) {
		if !w.of(file)[absent] {
			w.tally.violation("open %s: it is lost", path)
		}
		return
	}
	if !w.tally.outcome("open "+path, err) {
		return
	}
	_, err = f.WriteString(record)
	longer := states{}
	for s := range w.of(file) {
		if s != absent {
			longer[s+record] = true
		}
	}
	written := w.tally.outcome("append to "+path, err)
	if closed := w.tally.outcome("close "+path, f.Close()); written && closed { // a mount orders content at the close
		w.model[file] = longer
	} else {
		w.model[file] = w.of(file).or(longer)
	}
}

// remove removes a file. os.Remove calls rmdir after an error of unlink: its ENOENT would hide an unlink in
// doubt.
func (w *fileWorker) remove(file string) {
	err := unix.Unlink(w.path(file))
	if errors.Is(err, fs.ErrNotExist) {
		if !w.of(file)[absent] {
			w.tally.violation("remove %s: it is lost", w.path(file))
		}
		return
	}
	if w.tally.outcome("remove "+w.path(file), err) {
		w.model[file] = only(absent)
	} else {
		w.model[file] = w.of(file).or(only(absent))
	}
}

// rename renames a file, also between partitions.
func (w *fileWorker) rename(from, to string) {
	if from == to {
		return
	}
	err := os.Rename(w.path(from), w.path(to))
	if errors.Is(err, fs.ErrNotExist) {
		if !w.of(from)[absent] {
			w.tally.violation("rename %s: it is lost", w.path(from))
		}
		return
	}
	moved := maps.Clone(w.of(from))
	delete(moved, absent)
	if w.tally.outcome("rename "+w.path(from)+" to "+w.path(to), err) {
		w.model[from], w.model[to] = only(absent), moved
	} else {
		w.model[to] = w.of(to).or(moved)
		w.model[from] = w.of(from).or(only(absent))
	}
}

// check reads a file through the mount that wrote it.
func (w *fileWorker) check(file string) {
	got, err := read(w.path(file))
	if err == nil {
		w.compare(file, w.path(file), got)
	}
	w.tally.outcome("read "+w.path(file), err)
}

// read returns the content of a file, or absent.
func read(path string) (string, error) {
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return absent, nil
	}
	return string(b), err
}

func (w *fileWorker) compare(file, path, got string) {
	if !w.of(file)[got] {
		w.tally.violation("%s holds %s; it should be %s", path, brief(got), w.expected(file))
	}
}

func (w *fileWorker) expected(file string) string {
	var all []string
	for s := range w.of(file) {
		all = append(all, brief(s))
	}
	slices.Sort(all)
	return fmt.Sprint(all)
}

// brief returns a short text for a content.
func brief(content string) string {
	switch {
	case content == absent:
		return "no file"
	case len(content) > 40:
		tail := content[len(content)-30:]
		return fmt.Sprintf("%d bytes %.10q...%q (%08x)", len(content), content, tail, checksum(content))
	}
	return fmt.Sprintf("%q", content)
}

func checksum(content string) (sum uint32) {
	for _, b := range []byte(content) {
		sum = sum*31 + uint32(b)
	}
	return sum
}

// checkAll compares all files on another mount. from is the directory of the worker's own mount, to that of
// the other.
func (w *fileWorker) checkAll(from, to string) error {
	for dir := range w.dirs {
		for n := range namesInDir {
			file := fmt.Sprintf("%d/f%d", dir, n)
			relative, err := filepath.Rel(from, w.path(file))
			if err != nil {
				return err
			}
			path := filepath.Join(to, relative)
			got, err := read(path)
			if err != nil {
				return err
			}
			w.compare(file, path, got)
		}
	}
	return nil
}
