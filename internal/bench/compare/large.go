package compare

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

const (
	piece  = 1 << 20 // bytes of a sequential read or write
	random = 4 << 10 // bytes of a random one
)

// offsets are random positions in a large file, the same in all directories.
type offsets struct{ lots *rand.Rand }

func newOffsets(client int) *offsets { return &offsets{rand.New(rand.NewPCG(1, uint64(client)))} }

func (o *offsets) next(size int64) int64 { return o.lots.Int64N(size/random) * random }

// largeSize returns the size of one client's large file.
func (s *site) largeSize() int64 {
	return max(1, s.cfg.Size/piece/int64(len(s.workers))) * piece
}

func pieces(s *site, _ *worker) int { return int(s.largeSize() / piece) }

// newLarge makes an empty large file for each client.
func newLarge(s *site) error {
	return s.together(func(w *worker) (err error) {
		if err := w.closeLarge(); err != nil {
			return err
		}
		w.large, err = os.Create(filepath.Join(w.dir, "large"))
		return err
	})
}

// needLarge completes the large files, as their write may have been cut short or not chosen, and has the
// kernel forget their pages.
func needLarge(s *site) error {
	return s.together(func(w *worker) (err error) {
		if w.large == nil {
			if w.large, err = os.Create(filepath.Join(w.dir, "large")); err != nil {
				return err
			}
		}
		size, err := w.large.Seek(0, io.SeekEnd)
		if err != nil {
			return err
		}
		for n := int(size / piece); n < pieces(s, w) && s.ctx.Err() == nil; n++ {
			if err := writePiece(s, w, n); err != nil {
				return err
			}
		}
		if err := errors.Join(s.ctx.Err(), w.large.Sync()); err != nil {
			return err
		}
		if err := unix.Fadvise(int(w.large.Fd()), 0, 0, unix.FADV_DONTNEED); err != nil {
			return fmt.Errorf("fadvise %s: %w", w.large.Name(), err)
		}
		return nil
	})
}

func writePiece(_ *site, w *worker, n int) error {
	_, err := w.large.WriteAt(w.buffer, int64(n)*piece)
	return err
}

func readPiece(_ *site, w *worker, n int) error {
	_, err := w.large.ReadAt(w.buffer, int64(n)*piece)
	return err
}

func writeRandom(s *site, w *worker, _ int) error {
	_, err := w.large.WriteAt(w.buffer[:random], w.offset.next(s.largeSize()))
	return err
}

func readRandom(s *site, w *worker, _ int) error {
	_, err := w.large.ReadAt(w.buffer[:random], w.offset.next(s.largeSize()))
	return err
}

func (w *worker) closeLarge() error {
	if w.large == nil {
		return nil
	}
	f := w.large
	w.large = nil
	return f.Close()
}
