package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/globalfs/globalfs/internal/command"
	"github.com/globalfs/globalfs/internal/progress"
)

func newWarmup() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "warmup PATH...",
		Short: "Read files into the caches of this machine",
		Long: `warmup reads each PATH with all below it into the caches of this machine: the memory of the kernel, the memory of the mount, and the disk of
'globalfs mount --cache-dir', which keeps them after the mount has ended. It reads several files at a time. It names unreadable files at the
end, and leaves out other file systems below PATH.

The caches keep only what fits: --cache-size of the mount bounds the disk cache.`,
		Example: `  globalfs warmup ~/globalfs/datasets/train
  globalfs warmup -o json ~/globalfs/projects | jq .bytes`,
		Args: somePaths("warmup"),
		RunE: func(cmd *cobra.Command, args []string) error { return runWarmup(cmd, args, output) },
	}
	outputFlag(cmd, &output)
	return cmd
}

// warmed is the result of a warmup.
type warmed struct {
	Files   uint64  `json:"files"`
	Bytes   uint64  `json:"bytes"`
	Seconds float64 `json:"seconds"`
}

func runWarmup(cmd *cobra.Command, paths []string, output string) error {
	ctx, began, w := cmd.Context(), time.Now(), &warming{}
	stop := showProgress(ctx, cmd.ErrOrStderr(), w.state)
	err := w.run(ctx, paths)
	stop()
	done := warmed{w.files.Load(), w.bytes.Load(), time.Since(began).Seconds()}
	if ctx.Err() != nil {
		return fmt.Errorf("warmup: interrupted after %d files, %s", done.Files, size(done.Bytes))
	}
	if output == "json" {
		return errors.Join(command.PrintJSON(cmd.OutOrStdout(), &done), err)
	}
	if err != nil && done.Files == 0 {
		return err
	}
	_, printed := fmt.Fprintf(cmd.OutOrStdout(), "%d files, %s, in %.1f s\n", done.Files, size(done.Bytes), done.Seconds)
	return errors.Join(printed, err)
}

// warming is a warmup under way.
type warming struct {
	total        atomic.Uint64 // bytes; 0: not known yet
	files, bytes atomic.Uint64 // so far
	walk         walk
}

// state returns the state of the warmup.
func (w *warming) state(context.Context) progress.State {
	const mib = 1 << 20
	if w.total.Load() == 0 {
		return progress.State{Doing: "looking for files", Unit: "inodes", Done: w.walk.inodes.Load()}
	}
	return progress.State{Doing: "reading", Unit: "MiB", Done: w.bytes.Load() / mib, Total: w.total.Load() / mib}
}

// run sums up paths and then reads them. It continues after a path that cannot be read.
func (w *warming) run(ctx context.Context, paths []string) error {
	var errs []error
	var found []string
	total := uint64(0)
	for _, path := range paths {
		u, err := w.walk.of(ctx, path)
		errs = append(errs, err)
		if u != nil {
			found, total = append(found, path), total+u.Size
		}
	}
	w.total.Store(total)
	w.walk.errs = nil // err has them
	g, reading := errgroup.WithContext(ctx)
	g.SetLimit(walkers)
	for _, path := range found {
		if err := w.readBelow(reading, g, path); err != nil {
			errs = append(errs, err)
		}
	}
	errs = append(errs, g.Wait())
	return errors.Join(append(errs, w.walk.errs...)...)
}

// readBelow starts the reading of all files below a path. It records failures; only the end of ctx ends it.
func (w *warming) readBelow(ctx context.Context, g *errgroup.Group, root string) error {
	top, err := lstat(ctx, root)
	if err != nil {
		return explain(root, err)
	}
	return interruptibly(ctx, func() error {
		return filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
			switch {
			case ctx.Err() != nil:
				return ctx.Err()
			case err != nil:
				w.walk.fail(explain(path, err))
				return nil
			case e.IsDir() && path != root:
				if stat, err := lstat(ctx, path); err != nil || stat.Dev != top.Dev {
					return fs.SkipDir // another file system, or removed meanwhile
				}
			case e.Type().IsRegular():
				g.Go(func() error { return w.read(ctx, path) })
			}
			return nil
		})
	})
}

// read reads a file. It returns an error only when ctx has ended.
func (w *warming) read(ctx context.Context, path string) error {
	err := interruptibly(ctx, func() error {
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer func() { _ = f.Close() }() // it was only read
		buffer := make([]byte, 1<<20)
		for ctx.Err() == nil {
			n, err := f.Read(buffer)
			w.bytes.Add(uint64(n))
			if errors.Is(err, io.EOF) {
				w.files.Add(1)
				return nil
			}
			if err != nil {
				return err
			}
		}
		return ctx.Err()
	})
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil && !errors.Is(err, fs.ErrNotExist): // otherwise it was removed
		w.walk.fail(explain(path, err))
	}
	return nil
}
