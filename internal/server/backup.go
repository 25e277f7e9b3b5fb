package server

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/globalfs/globalfs/internal/kv"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/varint"
)

// cutIdle is the time after which a saved state is released if nothing reads it.
const cutIdle = 5 * time.Minute

// cut is the state that a replica has saved for the newest backup. It exists until it is read or released.
type cut struct {
	mu     sync.Mutex
	number uint64      // GUARDED_BY mu; of the backup
	view   *kv.View    // nil: it was read or released
	kept   uint64      // number of calls of keep: a timer releases the state of its own call only
	idle   *time.Timer // GUARDED_BY mu
}

// keep replaces the saved state, unless it belongs to a newer backup.
func (c *cut) keep(number uint64, view *kv.View) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if number < c.number {
		view.Close() // an exporter has returned it after a newer backup began
		return
	}
	c.drop()
	c.kept++
	c.number, c.view = number, view
	kept := c.kept
	c.idle = time.AfterFunc(cutIdle, func() { c.expire(kept) })
}

// expire releases the saved state of one call of keep, if it is still saved. The timer may have waited for
// the lock while the state was read or replaced.
func (c *cut) expire(kept uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.kept == kept {
		c.drop()
	}
}

// take removes and returns the saved state of a backup. The caller must close it. newest is the newest backup
// that the replica has saved.
func (c *cut) take(number uint64) (view *kv.View, newest uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.number == number && c.view != nil {
		c.idle.Stop()
		view, c.view = c.view, nil
	}
	return view, c.number
}

// close releases the saved state.
func (c *cut) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.drop()
}

// drop closes the view of the saved state, if there is one. The caller holds mu.
func (c *cut) drop() {
	if c.view != nil {
		c.idle.Stop()
		c.view.Close()
		c.view = nil
	}
}

// saveCut saves the state of the store for a backup (replica.Config.Cut).
func (h *hosted) saveCut(number uint64) error {
	view, err := h.keys.View()
	if err == nil {
		h.cut.keep(number, view)
	}
	return err
}

// ErrNotSaved reports that a replica has not saved its state for a backup yet.
var ErrNotSaved = errors.New("the replica has not saved its state for this backup yet")

// Mark starts a backup of a partition at its replica on this server and keeps the blocks of the backup from
// collection. With release, it releases the blocks. It returns the newest backup that the replica knows.
func (s *Server) Mark(ctx context.Context, partition uint16, number uint64, release bool) (newest uint64, err error) {
	r := s.residence(partition)
	if r == nil {
		return 0, fmt.Errorf("partition %d: %w", partition, ErrNotHere)
	}
	h := r.hosted.Load()
	if h.catching.Load() {
		return 0, errCatching
	}
	err = h.driver.Between(ctx, func() { newest = h.replica.Mark(number, release) })
	return newest, err
}

// Piece is a part of the state of a partition in a backup.
type Piece struct {
	Export uint64 // number of the copy from which the piece was read; pass it for the next piece
	Length uint64 // length of the whole state in bytes; 0: the copy is being written, ask again
	Data   []byte
}

// CutPiece reads a piece of the state that a replica on this server has saved for a backup. For the first
// call, export is 0: it starts to write the state into a file, from which later calls read.
func (s *Server) CutPiece(partition uint16, number, export, offset uint64) (p Piece, err error) {
	r := s.residence(partition)
	if r == nil {
		return p, fmt.Errorf("partition %d: %w", partition, ErrNotHere)
	}
	h := r.hosted.Load()
	if export == 0 {
		if export, err = h.exportCut(number); err != nil {
			return p, err
		}
	}
	if offset >= 1<<62 {
		return p, fmt.Errorf("backup: offset %d: %w", offset, varint.ErrMalformed)
	}
	b, err := h.exports.piece(export, int64(offset))
	if err != nil {
		return p, err
	}
	reader := varint.NewReader(b)
	p.Export, p.Length, p.Data = reader.Uint64(), reader.Uint64(), reader.Rest()
	return p, reader.Err()
}

// exportCut starts to write the saved state into a file.
func (h *hosted) exportCut(number uint64) (export uint64, err error) {
	view, newest := h.cut.take(number)
	switch {
	case view != nil:
	case newest > number:
		return 0, fmt.Errorf("backup %d was overtaken by backup %d: start it again", number, newest)
	case newest == number:
		return 0, fmt.Errorf("the state for backup %d was read before, or let go after %v: start the backup again", number, cutIdle)
	default:
		return 0, ErrNotSaved
	}
	export, e, err := h.exports.begin()
	if err != nil {
		h.cut.keep(number, view) // a transfer to another replica is in progress: the view may be read later
		return 0, err
	}
	h.exports.writing.Go(func() {
		defer view.Close()
		err := errors.Join(meta.Snapshot(view, e.file), view.Err())
		h.exports.written(export, err)
	})
	return export, nil
}
