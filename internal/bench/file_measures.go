package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"
)

const (
	chunkSize = 1 << 20 // bytes of one write or read of the program, as of cp on our mounts
	maxSmall  = 1 << 20 // bytes of the largest small file
	largeName = "large"
)

// fileMeasure is one measure. Its prepare is not timed. It returns act, which is timed and returns the amount
// of its work in the unit of the measure, and in bytes.
type fileMeasure struct {
	name, unit string
	writes     bool
	prepare    func(ctx context.Context, c *Contender) (act func() (amount, bytes float64, err error), err error)
}

// fileMeasures returns the measures, in an order in which each finds the files that it needs.
func fileMeasures(cfg *FileConfig) []fileMeasure {
	all := []fileMeasure{
		{"write", "MiB", true, cfg.prepareWrite},
		{"read again, kernel has it", "MiB", false, func(ctx context.Context, c *Contender) (func() (float64, float64, error), error) {
			return cfg.prepareRead(ctx, c, cfg.readThrough)
		}},
		{"read, file system has it", "MiB", false, func(ctx context.Context, c *Contender) (func() (float64, float64, error), error) {
			if err := c.Fresh(cfg.Size * 5 / 4); err != nil {
				return nil, err
			}
			return cfg.prepareRead(ctx, c, func(ctx context.Context, f *os.File) error {
				return errors.Join(cfg.readThrough(ctx, f), dropPages(f))
			})
		}},
		{"read, servers have it", "MiB", false, func(ctx context.Context, c *Contender) (func() (float64, float64, error), error) {
			if err := c.Fresh(0); err != nil {
				return nil, err
			}
			return cfg.prepareRead(ctx, c, func(context.Context, *os.File) error { return nil })
		}},
		{"read, on disk", "MiB", false, func(ctx context.Context, c *Contender) (func() (float64, float64, error), error) {
			if err := errors.Join(c.Fresh(0), forget(c.Backing)); err != nil {
				return nil, err
			}
			return cfg.prepareRead(ctx, c, func(context.Context, *os.File) error { return nil })
		}},
	}
	for _, size := range cfg.Small {
		name := fmt.Sprintf("make files of %d bytes", size)
		all = append(all, fileMeasure{name, "files", true, func(ctx context.Context, c *Contender) (func() (float64, float64, error), error) {
			return cfg.prepareSmall(ctx, c, size)
		}})
	}
	return all
}

// prepareWrite removes the large file; the timed part makes it again.
func (cfg *FileConfig) prepareWrite(ctx context.Context, c *Contender) (func() (float64, float64, error), error) {
	path := filepath.Join(c.Dir, largeName)
	if err := errors.Join(c.Fresh(0), remove(path), forget(c.Backing)); err != nil {
		return nil, err
	}
	return func() (float64, float64, error) {
		f, err := os.Create(path)
		if err != nil {
			return 0, 0, err
		}
		err = cfg.writeLarge(ctx, f)
		if err == nil && cfg.Sync {
			err = f.Sync()
		}
		return float64(cfg.Size) / chunkSize, float64(cfg.Size), errors.Join(err, f.Close())
	}, nil
}

func (cfg *FileConfig) writeLarge(ctx context.Context, f *os.File) error {
	p := newPayload(chunkSize)
	for n := range int(cfg.Size / chunkSize) {
		if err := ctx.Err(); err != nil {
			return err
		}
		if _, err := f.Write(p.piece(0, n)); err != nil {
			return err
		}
	}
	return nil
}

// prepareRead opens the large file and brings caches into the required state; the timed part reads the file.
func (cfg *FileConfig) prepareRead(ctx context.Context, c *Contender, caches func(context.Context, *os.File) error) (func() (float64, float64, error), error) {
	f, err := os.Open(filepath.Join(c.Dir, largeName))
	if err != nil {
		return nil, err
	}
	if err := caches(ctx, f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return func() (float64, float64, error) {
		return float64(cfg.Size) / chunkSize, float64(cfg.Size), errors.Join(cfg.readThrough(ctx, f), f.Close())
	}, nil
}

// readThrough reads the large file from its beginning to its end.
func (cfg *FileConfig) readThrough(ctx context.Context, f *os.File) error {
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return err
	}
	buffer := make([]byte, chunkSize)
	for read := int64(0); ; {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, err := f.Read(buffer)
		read += int64(n)
		switch {
		case errors.Is(err, io.EOF) && read == cfg.Size:
			return nil
		case errors.Is(err, io.EOF):
			return fmt.Errorf("%s has %d bytes instead of %d", f.Name(), read, cfg.Size)
		case err != nil:
			return err
		}
	}
}

// prepareSmall makes a directory; the timed part makes small files in it, one after the other.
func (cfg *FileConfig) prepareSmall(ctx context.Context, c *Contender, size int) (func() (float64, float64, error), error) {
	c.made++
	dir := filepath.Join(c.Dir, fmt.Sprintf("small-%d", c.made))
	if err := errors.Join(os.Mkdir(dir, 0o755), forget(c.Backing)); err != nil {
		return nil, err
	}
	p := newPayload(size)
	return func() (float64, float64, error) {
		n := 0
		for end := time.Now().Add(cfg.Duration); time.Now().Before(end) && ctx.Err() == nil; n++ {
			f, err := os.Create(filepath.Join(dir, fmt.Sprint(n)))
			if err != nil {
				return 0, 0, err
			}
			_, err = f.Write(p.piece(0, n))
			if err == nil && cfg.Sync {
				err = f.Sync()
			}
			if err = errors.Join(err, f.Close()); err != nil {
				return 0, 0, err
			}
		}
		return float64(n), float64(n * size), nil
	}, nil
}
