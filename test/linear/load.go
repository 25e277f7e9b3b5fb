package linear

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Config is the load.
type Config struct {
	Mounts  []string // of the same tree
	Dirs    []string // in the tree, which get the objects
	Workers int      // of each mount
	Window  time.Duration
	Within  time.Duration // time limit of the check of one object
	Seed    uint64
}

// Result counts the operations by their kinds.
type Result struct {
	Windows  int
	Done     map[Kind]int
	Refused  map[Kind]int // make, remove and lock: the state of the object did not permit it
	Unknowns int
}

// Run lets workers operate on objects, one window after another until ctx ends, and checks each window.
func Run(ctx context.Context, cfg Config) (r Result, err error) {
	r.Done, r.Refused = map[Kind]int{}, map[Kind]int{}
	for ; err == nil && ctx.Err() == nil; r.Windows++ {
		var history []Op
		if history, err = cfg.window(ctx, r.Windows); err == nil {
			r.count(history)
			err = Check(history, cfg.Within)
		}
	}
	return r, err
}

func (r *Result) count(history []Op) {
	for i := range history {
		switch o := &history[i]; {
		case o.Unknown:
			r.Unknowns++
		case o.Done:
			r.Done[o.Kind]++
		default:
			r.Refused[o.Kind]++
		}
	}
}

// window runs all workers for one window.
func (c *Config) window(ctx context.Context, number int) ([]Op, error) {
	var registers, all []string
	for _, dir := range c.Dirs {
		for _, kind := range []string{"register", "name", "lock"} {
			name := filepath.Join(dir, fmt.Sprintf("window-%d-%s", number, kind))
			all = append(all, name)
			if kind != "name" {
				registers = append(registers, name)
			}
		}
	}
	for _, name := range registers {
		if err := c.create(ctx, filepath.Join(c.Mounts[0], name)); err != nil {
			return nil, err
		}
	}
	began, end := time.Now(), time.Now().Add(c.Window)
	var working sync.WaitGroup
	workers := make([]*worker, len(c.Mounts)*c.Workers)
	for i := range workers {
		w := &worker{number: i, mount: c.Mounts[i%len(c.Mounts)], began: began, rng: rand.New(rand.NewPCG(c.Seed+uint64(number), uint64(i)))}
		workers[i] = w
		working.Go(func() { w.run(all, end) })
	}
	working.Wait()
	var history []Op
	var errs []error
	for _, w := range workers {
		history, errs = append(history, w.history...), append(errs, w.err)
	}
	return history, errors.Join(errs...)
}

// create makes a register with the value 0. Nobody else knows it, so it is made again after an error.
func (c *Config) create(ctx context.Context, path string) error {
	for {
		err := os.WriteFile(path, fmt.Appendf(nil, "%08d", 0), 0o666)
		for _, mount := range c.Mounts[1:] { // it is there for all
			if err == nil {
				other, _ := filepath.Rel(c.Mounts[0], path)
				_, err = os.ReadFile(filepath.Join(mount, other))
			}
		}
		if err == nil || ctx.Err() != nil {
			return err
		}
	}
}

// worker operates through one mount.
type worker struct {
	number  int
	mount   string
	began   time.Time
	rng     *rand.Rand
	locks   map[string]*os.File
	history []Op
	err     error // not permitted
}

func (w *worker) run(objects []string, end time.Time) {
	w.locks = map[string]*os.File{}
	for w.err == nil && time.Now().Before(end) {
		name := objects[w.rng.IntN(len(objects))]
		switch path := filepath.Join(w.mount, name); name[len(name)-4:] {
		case "ster":
			w.register(name, path)
		case "name":
			w.name(name, path)
		default:
			w.lock(name, path)
		}
	}
	for _, f := range w.locks {
		_ = f.Close() // the window is over
	}
}

// do records an operation. Its function reports the value that was read, and whether it took effect; the
// refusal is the error of an operation that the state of the object does not permit.
func (w *worker) do(o Op, refusal error, do func() (int, error)) {
	o.Worker, o.Call = w.number, time.Since(w.began)
	value, err := do()
	o.Return = time.Since(w.began)
	switch {
	case err == nil:
		o.Done = true
		if o.Kind == Read {
			o.Value = value
		}
	case refusal != nil && errors.Is(err, refusal):
	case errors.Is(err, unix.EIO) || errors.Is(err, unix.ETIMEDOUT) || errors.Is(err, unix.EINTR):
		o.Unknown = true
	default:
		w.err = fmt.Errorf("%s: %s: %w", o.Key, o.Kind, err)
	}
	w.history = append(w.history, o)
}

const digits = 8

// register reads or writes a register: 8 digits in one write.
func (w *worker) register(key, path string) {
	if w.rng.IntN(2) == 0 {
		w.do(Op{Key: key, Kind: Read}, nil, func() (int, error) {
			text, err := os.ReadFile(path)
			if err != nil {
				return 0, err
			}
			return strconv.Atoi(string(text))
		})
		return
	}
	value := w.rng.IntN(90_000_000) + 10_000_000
	w.do(Op{Key: key, Kind: Write, Value: value}, nil, func() (int, error) {
		f, err := os.OpenFile(path, os.O_WRONLY|os.O_SYNC, 0)
		if err != nil {
			return 0, err
		}
		_, err = f.WriteAt(fmt.Appendf(nil, "%0*d", digits, value), 0)
		return 0, errors.Join(err, f.Close())
	})
}

// name makes, removes or looks up a name.
func (w *worker) name(key, path string) {
	switch w.rng.IntN(3) {
	case 0:
		w.do(Op{Key: key, Kind: Make}, os.ErrExist, func() (int, error) {
			f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o666)
			if err != nil {
				return 0, err
			}
			return 0, f.Close()
		})
	case 1:
		w.do(Op{Key: key, Kind: Remove}, os.ErrNotExist, func() (int, error) { return 0, unix.Unlink(path) })
	default:
		w.do(Op{Key: key, Kind: Look}, os.ErrNotExist, func() (int, error) {
			_, err := os.Lstat(path)
			return 0, err
		})
	}
}

// lock tries to lock a file, and unlocks it.
func (w *worker) lock(key, path string) {
	f := w.locks[key]
	if f == nil {
		var err error
		if f, err = os.Open(path); err != nil {
			return
		}
		w.locks[key] = f
	}
	before := len(w.history)
	w.do(Op{Key: key, Kind: Lock}, unix.EWOULDBLOCK, func() (int, error) { return 0, unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) })
	if o := w.history[before]; o.Done || o.Unknown {
		w.do(Op{Key: key, Kind: Unlock}, nil, func() (int, error) { return 0, unix.Flock(int(f.Fd()), unix.LOCK_UN) })
	}
}
