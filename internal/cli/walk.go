package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"

	"golang.org/x/sync/errgroup"
)

// usage is the sum over a directory with all below it, or a file.
type usage struct {
	Path        string `json:"path"`
	Files       uint64 `json:"files"` // all inodes except directories
	Directories uint64 `json:"directories"`
	Size        uint64 `json:"size"` // bytes of regular files
	Used        uint64 `json:"used"` // bytes, without holes, one copy counted
	// Regions are the bytes in use by region, if requested.
	Regions  map[string]uint64 `json:"used_by_region,omitempty"`
	Children []*usage          `json:"children,omitempty"`

	directory bool
}

// add adds the sums of o.
func (u *usage) add(o *usage) {
	u.Files, u.Directories, u.Size, u.Used = u.Files+o.Files, u.Directories+o.Directories, u.Size+o.Size, u.Used+o.Used
	for region, bytes := range o.Regions {
		if u.Regions == nil {
			u.Regions = map[string]uint64{}
		}
		u.Regions[region] += bytes
	}
}

// walkers is the number of concurrent calls of a walk. It hides the latency of distant servers.
const walkers = 16

// walk sums up trees. Inodes with several names count once.
type walk struct {
	depth  int                                                    // maximum depth of the kept children
	region func(ctx context.Context, path string) (string, error) // nil: regions are not requested

	inodes atomic.Uint64 // inodes
	mu     sync.Mutex
	links  map[[2]uint64]bool // GUARDED_BY mu; device and inode of files with several names
	errs   []error            // GUARDED_BY mu
}

// maxWalkErrors is the maximum number of errors that a walk remembers.
const maxWalkErrors = 20

// of sums up a path. It leaves out unreadable files; the error names the first ones.
func (w *walk) of(ctx context.Context, path string) (*usage, error) {
	w.links, w.errs = map[[2]uint64]bool{}, nil
	stat, err := lstat(ctx, path)
	if err != nil {
		return nil, explain(path, err)
	}
	if err := checkOnMount(ctx, path); err != nil {
		return nil, err
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(walkers)
	root := w.visit(ctx, g, path, stat, 0)
	if err := g.Wait(); err != nil {
		return nil, err
	}
	root.sum(w.depth)
	return root, errors.Join(w.errs...)
}

// sum adds the sums of the children, and drops children below depth.
func (u *usage) sum(depth int) {
	for _, child := range u.Children {
		child.sum(depth - 1)
		u.add(child)
	}
	if depth <= 0 {
		u.Children = nil
		return
	}
	slices.SortFunc(u.Children, func(a, b *usage) int {
		return cmp.Or(cmp.Compare(b.Used, a.Used), strings.Compare(a.Path, b.Path))
	})
}

func (w *walk) fail(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.errs) < maxWalkErrors {
		w.errs = append(w.errs, err)
	}
}

// isCounted reports whether an inode was counted under another name already.
func (w *walk) isCounted(stat *syscall.Stat_t) bool {
	if stat.Nlink < 2 || stat.Mode&syscall.S_IFMT == syscall.S_IFDIR {
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	key := [2]uint64{stat.Dev, stat.Ino}
	counted := w.links[key]
	w.links[key] = true
	return counted
}

// visit counts one inode. It counts the entries of a directory in the background if a walker is free.
func (w *walk) visit(ctx context.Context, g *errgroup.Group, path string, stat *syscall.Stat_t, level int) *usage {
	u := &usage{Path: path}
	if w.isCounted(stat) {
		return u
	}
	w.inodes.Add(1)
	u.Used = uint64(stat.Blocks) * 512
	switch stat.Mode & syscall.S_IFMT {
	case syscall.S_IFDIR:
		u.Directories, u.directory = 1, true
	case syscall.S_IFREG:
		u.Files, u.Size = 1, uint64(stat.Size)
	default:
		u.Files = 1
	}
	if w.region != nil {
		region, err := w.region(ctx, path)
		if err != nil {
			w.fail(err)
		} else {
			u.Regions = map[string]uint64{region: u.Used}
		}
	}
	if u.directory {
		read := func() error { return w.entries(ctx, g, u, stat.Dev, level) }
		if !g.TryGo(read) {
			if err := read(); err != nil {
				w.fail(err)
			}
		}
	}
	return u
}

// entries visits the entries of a directory, if they are on the same file system. It records failures; only
// the end of ctx ends the walk.
func (w *walk) entries(ctx context.Context, g *errgroup.Group, dir *usage, device uint64, level int) error {
	f, err := obtain(ctx, func() (*os.File, error) { return os.Open(dir.Path) })
	if err == nil {
		defer func() { _ = f.Close() }() // it was only read
	}
	for err == nil && ctx.Err() == nil {
		var names []string
		if names, err = obtain(ctx, func() ([]string, error) { return f.Readdirnames(namesAtOnce) }); err == nil {
			w.named(ctx, g, dir, names, device, level)
		}
	}
	if err != nil && !errors.Is(err, io.EOF) && ctx.Err() == nil {
		w.fail(fmt.Errorf("%w: its entries are not counted", err))
	}
	return ctx.Err()
}

// namesAtOnce is the number of names that are read and looked up together: the kernel then goes on to get
// attributes with the names, one call for many files.
const namesAtOnce = 32

// named visits some entries of a directory. It records failures.
func (w *walk) named(ctx context.Context, g *errgroup.Group, dir *usage, names []string, device uint64, level int) {
	for _, name := range names {
		if ctx.Err() != nil {
			return
		}
		path := filepath.Join(dir.Path, name)
		stat, err := lstat(ctx, path)
		switch {
		case errors.Is(err, syscall.ENOENT): // it was removed
		case err != nil:
			w.fail(explain(path, err))
		case stat.Dev == device:
			dir.Children = append(dir.Children, w.visit(ctx, g, path, stat, level+1))
		}
	}
}

func lstat(ctx context.Context, path string) (*syscall.Stat_t, error) {
	return obtain(ctx, func() (*syscall.Stat_t, error) {
		var stat syscall.Stat_t
		err := syscall.Lstat(path, &stat)
		return &stat, err
	})
}

// obtain is interruptibly for a call with a result. After the end of ctx the result is dropped.
func obtain[T any](ctx context.Context, call func() (T, error)) (result T, err error) {
	got := make(chan T, 1)
	err = interruptibly(ctx, func() error {
		value, err := call()
		if err == nil {
			got <- value
		}
		return err
	})
	if err == nil {
		result = <-got
	}
	return result, err
}
