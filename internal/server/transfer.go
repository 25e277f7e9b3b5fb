package server

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/globalfs/globalfs/internal/kv"
	"github.com/globalfs/globalfs/internal/replica"
	"github.com/globalfs/globalfs/internal/transport"
	"github.com/globalfs/globalfs/internal/varint"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// A replica that is behind what its group keeps fetches the state of another one in pieces. Such requests begin with a
// byte that no request to a replica begins with; then the number of the export, 0 for a new one, and the offset. The
// answer has the number, the length of the whole and a piece.

const transferRequest = 0x80

const (
	pieceBytes   = 1 << 20
	pieceTimeout = 30 * time.Second
	exportIdle   = time.Minute // then an export that nobody reads on is dropped
	transferWait = time.Second // between two rounds over the other replicas
)

// exports are the states that this replica is giving to others: files that are gone when it stops.
type exports struct {
	dir string

	mu   sync.Mutex
	last uint64             // GUARDED_BY mu
	open map[uint64]*export // GUARDED_BY mu
}

type export struct {
	file   *os.File
	length int64
	idle   *time.Timer
}

// serve answers calls to a replica: pieces of its state, and all that its driver answers.
func (s *Server) serve(h *hosted) transport.Handler {
	return func(ctx context.Context, request []byte) ([]byte, error) {
		if len(request) == 0 || request[0] != transferRequest {
			return h.driver.Handle(ctx, request)
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

// export writes the replica's state, as it is between two turns, into a file. Only taking the view of the store holds the
// replica up.
func (h *hosted) export(ctx context.Context) (uint64, error) {
	type taken struct {
		states []byte
		view   *kv.View
		err    error
	}
	result := make(chan taken, 1)
	err := h.driver.Between(ctx, func() {
		if ctx.Err() != nil {
			return // nobody waits any more
		}
		t := taken{states: h.replica.CoreStates()}
		t.view, t.err = h.keys.View()
		result <- t
	})
	if err != nil {
		return 0, err
	}
	t := <-result
	if t.err != nil {
		return 0, t.err
	}
	defer t.view.Close()
	return h.exports.add(func(w io.Writer) error {
		return errors.Join(replica.Export(w, t.states, t.view), t.view.Err())
	})
}

// add makes a file of what write writes.
func (x *exports) add(write func(io.Writer) error) (uint64, error) {
	file, err := os.CreateTemp(x.dir, "export-")
	if err != nil {
		return 0, fmt.Errorf("transfer: %w", err)
	}
	err = errors.Join(os.Remove(file.Name()), write(file)) // it lives as long as it is open
	length, seekErr := file.Seek(0, io.SeekEnd)
	if err = errors.Join(err, seekErr); err != nil {
		return 0, errors.Join(fmt.Errorf("transfer: %w", err), file.Close())
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.last++
	number := x.last
	x.open[number] = &export{file: file, length: length, idle: time.AfterFunc(exportIdle, func() { x.drop(number) })}
	return number, nil
}

// piece reads from an export, which is over with its last piece.
func (x *exports) piece(number uint64, offset int64) ([]byte, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	e := x.open[number]
	if e == nil || offset > e.length {
		return nil, fmt.Errorf("transfer: export %d has no byte %d: begin anew", number, offset)
	}
	e.idle.Reset(exportIdle)
	b := varint.AppendUint(varint.AppendUint(nil, number), uint64(e.length))
	head := len(b)
	b = append(b, make([]byte, min(pieceBytes, e.length-offset))...)
	if _, err := e.file.ReadAt(b[head:], offset); err != nil {
		return nil, fmt.Errorf("transfer: %w", err)
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

func (x *exports) close() {
	x.mu.Lock()
	defer x.mu.Unlock()
	for number, e := range x.open {
		e.idle.Stop()
		_ = e.file.Close()
		delete(x.open, number)
	}
}

// catchUp gives a replica whose driver has ended the state of another one of its partition. It tries until one does; false: ctx
// has ended.
func (s *Server) catchUp(ctx context.Context, h *hosted) bool {
	for {
		for _, donor := range s.cfg.Cluster.Partitions[h.partition].Replicas {
			if donor.Process == h.process {
				continue
			}
			err := s.takeOver(ctx, h, donor.Process)
			if err == nil {
				s.cfg.Logger.Info("a replica that was behind has taken over the state of another",
					"server", s.cfg.Name, "partition", h.partition, "process", h.process, "from", donor.Server)
				return true
			}
			if ctx.Err() != nil {
				return false
			}
			s.cfg.Logger.Warn("a replica is behind and cannot take over the state of another yet: trying on",
				"server", s.cfg.Name, "partition", h.partition, "process", h.process, "from", donor.Server, "error", err)
		}
		select {
		case <-ctx.Done():
			return false
		case <-time.After(transferWait):
		}
	}
}

// takeOver fetches the state of a donor and puts it in the place of the own one.
func (s *Server) takeOver(ctx context.Context, h *hosted, donor multicast.ProcessID) (err error) {
	file, err := os.CreateTemp(filepath.Join(s.cfg.Dir, fmt.Sprintf("partition-%d", h.partition)), "import-")
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
	record, err := h.replica.Adopt(file)
	if err != nil {
		return err
	}
	return h.log.Append([][]byte{record}, true)
}

// fetch reads the whole state of a donor.
func (h *hosted) fetch(ctx context.Context, donor multicast.ProcessID, into io.Writer) error {
	var number, offset uint64
	for {
		request := varint.AppendUint(binary.AppendUvarint([]byte{transferRequest}, number), offset)
		call, cancel := context.WithTimeout(ctx, pieceTimeout)
		answer, err := h.endpoint.Call(call, donor, request)
		cancel()
		if err != nil {
			return err
		}
		r := varint.NewReader(answer)
		n, length := r.Uint64(), r.Uint64()
		piece := r.Rest()
		if r.Err() != nil || number != 0 && n != number || offset+uint64(len(piece)) > length || len(piece) == 0 {
			return fmt.Errorf("transfer: answer of %d bytes at %d: %w", len(answer), offset, varint.ErrMalformed)
		}
		if _, err := into.Write(piece); err != nil {
			return err
		}
		number, offset = n, offset+uint64(len(piece))
		if offset == length {
			return nil
		}
	}
}
