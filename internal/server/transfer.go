package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/globalfs/globalfs/internal/kv"
	"github.com/globalfs/globalfs/internal/pause"
	"github.com/globalfs/globalfs/internal/replica"
	"github.com/globalfs/globalfs/internal/transport"
	"github.com/globalfs/globalfs/internal/varint"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// A replica that needs entries which its group does not keep any more fetches the state of another replica,
// in pieces. A request consists of the byte transferRequest, with which no other request to a replica begins,
// the number of the export (0: a new one), and the offset. The answer has the number of the export, the
// length of the whole state, and a piece.

const transferRequest = 0x80

const (
	pieceBytes   = 1 << 20
	pieceTimeout = 30 * time.Second
	exportIdle   = time.Minute // an export without a read for this time is dropped
	exportLast   = time.Second // an export whose last piece was read is dropped after this time
	exportPoll   = 100 * time.Millisecond
	catchUpWait  = time.Second // pause between the first two rounds over the other replicas; it doubles with each round
	catchUpMost  = 30 * time.Second
)

// errCatching answers calls to a replica that takes over the state of another one, because the replica could
// answer only much later.
var errCatching = errors.New("replica takes over the state of another one")

// exports are the states that this replica sends to other replicas. Each is in a file that is deleted when
// the replica stops. At most one is in use at a time.
type exports struct {
	dir     string
	first   uint64 // number below all exports of this incarnation
	writing sync.WaitGroup

	mu   sync.Mutex
	last uint64             // GUARDED_BY mu
	open map[uint64]*export // GUARDED_BY mu
}

type export struct {
	file   *os.File
	length int64 // length in bytes; 0: the state is being written
	err    error
	idle   *time.Timer
}

// serve returns the handler of calls to a replica. It answers requests of servers for pieces of the state and
// for the load; the driver answers the others.
func (s *Server) serve(h *hosted) transport.Handler {
	return func(ctx context.Context, request []byte) ([]byte, error) {
		asker := s.cfg.Asker(ctx)
		if asker.isNobody() {
			return nil, errNobody
		}
		ofServers := isOfServers(request)
		if ofServers && !asker.Server {
			return nil, errServersOnly
		}
		if ofServers && request[0] == loadRequest {
			l := s.admission.contention.pressure()
			return l.append(nil), nil
		}
		if h.catching.Load() {
			return nil, errCatching
		}
		if h.amnesiac.Load() {
			return nil, errAmnesiac
		}
		if !ofServers {
			return s.ask(ctx, h, asker.client(), request)
		}
		r := varint.NewReader(request[1:])
		number, offset := r.Uint64(), r.Uint(1<<62)
		if err := r.Done(); err != nil {
			return nil, fmt.Errorf("transfer: %w", err)
		}
		if number == 0 {
			var err error
			if number, err = h.export(ctx); err != nil {
				return nil, err
			}
		}
		return h.exports.piece(number, int64(offset))
	}
}

// export begins to write the state of the replica, between two turns, into a file. The replica waits only
// while the view of the store is made.
func (h *hosted) export(ctx context.Context) (uint64, error) {
	number, e, err := h.exports.begin()
	if err != nil {
		return 0, err
	}
	var states []byte
	var view *kv.View
	// The view must be closed even if the caller has given up.
	stopped := h.driver.Between(context.WithoutCancel(ctx), func() {
		states = h.replica.CoreStates()
		view, err = h.keys.View()
	})
	if err = errors.Join(stopped, err); err != nil {
		if view != nil {
			view.Close()
		}
		h.exports.drop(number)
		return 0, err
	}
	h.exports.writing.Go(func() {
		defer view.Close()
		err := errors.Join(replica.Export(e.file, states, view), view.Err())
		h.exports.written(number, err)
	})
	return number, nil
}

// begin creates the file of a new export.
func (x *exports) begin() (uint64, *export, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if len(x.open) > 0 {
		return 0, nil, errors.New("transfer: busy with another one: try later")
	}
	file, err := os.CreateTemp(x.dir, "export-")
	if err != nil {
		return 0, nil, fmt.Errorf("transfer: %w", err)
	}
	if err := os.Remove(file.Name()); err != nil { // the content remains while the file is open
		return 0, nil, errors.Join(fmt.Errorf("transfer: %w", err), file.Close())
	}
	x.last++
	number := x.first + x.last
	e := &export{file: file}
	e.idle = time.AfterFunc(exportIdle, func() { x.drop(number) })
	x.open[number] = e
	return number, e, nil
}

// written records that an export is complete, or has failed.
func (x *exports) written(number uint64, err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	e := x.open[number]
	if e == nil {
		return
	}
	length, seekErr := e.file.Seek(0, io.SeekEnd)
	e.length, e.err = length, errors.Join(err, seekErr)
}

// piece returns a piece of an export. While the export is being written, the length is 0 and the piece is
// empty.
func (x *exports) piece(number uint64, offset int64) ([]byte, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	e := x.open[number]
	if e == nil || e.length > 0 && offset > e.length {
		return nil, fmt.Errorf("transfer: export %d has no byte %d: begin anew", number, offset)
	}
	if e.err != nil {
		return nil, fmt.Errorf("transfer: %w", e.err)
	}
	e.idle.Reset(exportIdle)
	b := varint.AppendUint(varint.AppendUint(nil, number), uint64(e.length))
	if e.length == 0 {
		return b, nil
	}
	head := len(b)
	b = append(b, make([]byte, min(pieceBytes, e.length-offset))...)
	if _, err := e.file.ReadAt(b[head:], offset); err != nil {
		return nil, fmt.Errorf("transfer: %w", err)
	}
	if offset+pieceBytes >= e.length {
		e.idle.Reset(exportLast) // the last piece may be requested again
	}
	return b, nil
}

func (x *exports) drop(number uint64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if e := x.open[number]; e != nil {
		e.idle.Stop()
		_ = e.file.Close()
		delete(x.open, number)
	}
}

// close waits until no export is being written, and drops all exports.
func (x *exports) close() {
	x.writing.Wait()
	x.mu.Lock()
	defer x.mu.Unlock()
	for number, e := range x.open {
		e.idle.Stop()
		_ = e.file.Close()
		delete(x.open, number)
	}
}

// catchUp fetches the state of another replica of the partition for a replica that is behind, and stops its
// driver. It tries until it succeeds; it returns false if ctx ends before.
//
// During a round the replica takes no turns: a state would be useless if the replica acknowledged further
// messages meanwhile. But the other replicas may need messages that only this replica has, and then none of
// their states is usable. Therefore the replica takes turns between two rounds, for a longer time after each
// round.
func (s *Server) catchUp(ctx context.Context, h *hosted, stop func()) bool {
	for wait := catchUpWait; ; wait = min(2*wait, catchUpMost) {
		adopted := false
		_ = h.driver.Between(context.WithoutCancel(ctx), func() { // fails only if the driver ends; then ctx ends, too
			h.catching.Store(true)
			defer h.catching.Store(false)
			if adopted = s.takeOverAny(ctx, h); adopted {
				stop() // no turn must follow
			}
		})
		if adopted {
			return true
		}
		if pause.For(ctx, wait) != nil {
			return false
		}
	}
}

// takeOverAny asks each other replica of the partition once for its state. It reports whether one was usable.
func (s *Server) takeOverAny(ctx context.Context, h *hosted) bool {
	for _, donor := range s.plan.Load().Partitions[h.partition].Replicas {
		if donor.Process == h.process || ctx.Err() != nil {
			continue
		}
		err := s.takeOver(ctx, h, donor.Process)
		if err == nil {
			s.cfg.Logger.Info("a replica that was behind has taken over the state of another",
				"server", s.cfg.Name, "partition", h.partition, "process", h.process, "from", donor.Server)
			return true
		}
		s.cfg.Logger.Warn("a replica is behind and cannot take over the state of another yet: trying again",
			"server", s.cfg.Name, "partition", h.partition, "process", h.process, "from", donor.Server, "error", err)
	}
	return false
}

// takeOver fetches the state of a donor, and replaces the replica's own state with it.
func (s *Server) takeOver(ctx context.Context, h *hosted, donor multicast.ProcessID) (err error) {
	file, err := os.CreateTemp(s.partitionDir(h.partition), "import-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if err := os.Remove(file.Name()); err != nil {
		return err
	}
	if err := h.fetch(ctx, donor, file); err != nil {
		return err
	}
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	return h.replica.Adopt(file)
}

// fetch reads the whole state of a donor.
func (h *hosted) fetch(ctx context.Context, donor multicast.ProcessID, into io.Writer) error {
	var number, offset, length uint64
	for {
		n, of, piece, err := h.fetchPiece(ctx, donor, number, offset)
		switch {
		case err != nil:
			return err
		case number != 0 && n != number || length != 0 && of != length || offset+uint64(len(piece)) > of || of > 0 && len(piece) == 0:
			return fmt.Errorf("transfer: a piece of %d bytes at %d of %d: %w", len(piece), offset, of, varint.ErrMalformed)
		}
		if _, err := into.Write(piece); err != nil {
			return err
		}
		number, length, offset = n, of, offset+uint64(len(piece))
		if length == 0 {
			if err := pause.For(ctx, exportPoll); err != nil {
				return err
			}
		} else if offset == length {
			return nil
		}
	}
}

func (h *hosted) fetchPiece(ctx context.Context, donor multicast.ProcessID, number, offset uint64) (n, length uint64, piece []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, pieceTimeout)
	defer cancel()
	answer, err := h.endpoint.Call(ctx, donor, varint.AppendUint(varint.AppendUint([]byte{transferRequest}, number), offset))
	if err != nil {
		return 0, 0, nil, err
	}
	r := varint.NewReader(answer)
	n, length, piece = r.Uint64(), r.Uint64(), r.Rest()
	return n, length, piece, r.Err()
}
