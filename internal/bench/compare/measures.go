package compare

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// measure is one kind of work. The times of its steps are the latencies.
type measure struct {
	name string
	// prepare makes outside of the time the things that the steps need.
	prepare func(s *site) error
	// count gives the number of steps of one client.
	count func(s *site, w *worker) int
	step  func(s *site, w *worker, n int) error
	// directories lists the directories that the barrier syncs; nil: those of the clients.
	directories func(s *site) ([]string, error)
	program     bool   // runs once, with one client
	needs       string // a flag
}

const (
	needsSecond  = "--second"
	needsTar     = "--tar"
	needsSources = "--configure"
)

// measures in the order in which they run: each takes the files that the one before has left.
var measures = []measure{
	{name: "create", count: perClient, step: create},
	{name: "stat", prepare: needFiles, count: existing, step: stat},
	{name: "readdir", prepare: needFiles, count: listings, step: readdir},
	{name: "rename", prepare: needFiles, count: existing, step: rename},
	{name: "unlink", prepare: needFiles, count: existing, step: unlink},
	{name: "create-1k", count: perClient, step: createSmall},
	{name: "create-1k-fsync", count: perClient, step: createSynced},
	{name: "write-1m", prepare: newLarge, count: pieces, step: writePiece},
	{name: "read-1m", prepare: needLarge, count: pieces, step: readPiece},
	{name: "random-write-4k", prepare: needLarge, count: perClient, step: writeRandom},
	{name: "random-read-4k", prepare: needLarge, count: perClient, step: readRandom},
	{name: "seen-create", count: seenCount, step: seenCreate, needs: needsSecond},
	{name: "seen-rename", prepare: needFiles, count: seenCount, step: seenRename, needs: needsSecond},
	{name: "seen-unlink", prepare: needFiles, count: seenCount, step: seenUnlink, needs: needsSecond},
	{name: "seen-write", count: seenCount, step: seenWrite, needs: needsSecond},
	{name: "untar", prepare: listArchive, count: once, step: untar, directories: unpackedDirectories, program: true, needs: needsTar},
	{name: "rm-rf", prepare: needUnpacked, count: once, step: removeUnpacked, directories: ownDirectory, program: true, needs: needsTar},
	{name: "configure", prepare: copySources, count: once, step: configure, directories: sourceDirectories, program: true, needs: needsSources},
	{name: "make", prepare: needConfigured, count: once, step: makeAll, directories: sourceDirectories, program: true, needs: needsSources},
}

// worker is one client in one directory.
type worker struct {
	dir    string
	made   int      // files so far: names are not used again
	names  []string // of the empty files that exist
	large  *os.File // nil: there is none
	offset *offsets // of random reads and writes
	buffer []byte

	written, shown *os.File      // one file in both mounts; nil: there is none
	took           time.Duration // the latency of a step that measures by itself
}

func once(*site, *worker) int { return 1 }

func perClient(s *site, _ *worker) int { return max(1, s.cfg.Files/len(s.workers)) }

func existing(_ *site, w *worker) int { return len(w.names) }

func listings(*site, *worker) int { return 10 }

func (w *worker) newName() string {
	w.made++
	return filepath.Join(w.dir, "f"+strconv.Itoa(w.made))
}

func create(_ *site, w *worker, _ int) error { return w.create(w.newName()) }

func (w *worker) create(name string) error {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	w.names = append(w.names, name)
	return f.Close()
}

// needFiles makes the files of a measure without create before it.
func needFiles(s *site) error {
	return s.together(func(w *worker) error {
		for n := 0; len(w.names) < perClient(s, w) && s.ctx.Err() == nil; n++ {
			if err := create(s, w, n); err != nil {
				return err
			}
		}
		return s.ctx.Err()
	})
}

func stat(_ *site, w *worker, n int) error {
	_, err := os.Lstat(w.names[n])
	return err
}

func readdir(_ *site, w *worker, _ int) (err error) {
	d, err := os.Open(w.dir)
	if err != nil {
		return err
	}
	_, err = d.Readdirnames(-1)
	return errors.Join(err, d.Close())
}

func rename(_ *site, w *worker, n int) error {
	to := filepath.Join(w.dir, "r"+filepath.Base(w.names[n]))
	if err := os.Rename(w.names[n], to); err != nil {
		return err
	}
	w.names[n] = to
	return nil
}

func unlink(_ *site, w *worker, _ int) error {
	last := len(w.names) - 1
	if err := os.Remove(w.names[last]); err != nil {
		return err
	}
	w.names = w.names[:last]
	return nil
}

func createSmall(_ *site, w *worker, _ int) error { return w.createSmall(false) }

func createSynced(_ *site, w *worker, _ int) error { return w.createSmall(true) }

func (w *worker) createSmall(sync bool) error {
	f, err := os.OpenFile(w.newName(), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(w.buffer[:1<<10])
	if err == nil && sync {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}
