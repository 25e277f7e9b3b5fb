package serve

import (
	"encoding/binary"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/trace"
)

// server passes requests to the file system, and writes the answers.
type server struct {
	conn     *connection
	protocol *fuse.ProtocolServer
	logger   *slog.Logger
	recorder *trace.Recorder
	terms    Terms
	root     posix.Ino // the directory that the mount shows

	operations operations
	locked     locked
	threads    threads

	keeper atomic.Pointer[Keeper] // nil: no holder keeps the mount

	mu         sync.Mutex
	pending    map[uint64]*request // GUARDED_BY mu; by unique
	suspending bool                // GUARDED_BY mu; interrupted requests are postponed
	postponed  []*request          // GUARDED_BY mu; interrupted requests for the next process that serves
}

func newServer(cfg *Config, conn *connection) *server {
	return &server{
		conn: conn, protocol: fuse.NewProtocolServer(cfg.FileSystem, cfg.Options), logger: cfg.Logger, recorder: cfg.Trace, root: cfg.Root,
		pending: map[uint64]*request{}, operations: operations{failed: map[failure]uint64{}}, locked: newLocked(),
	}
}

// serve answers a request.
func (s *server) serve(r *request) {
	if r.unanswered() {
		s.protocol.HandleRequest([][]byte{r.raw}, nil)
		return
	}
	r.show(s.root)
	if !r.holds { // otherwise the request was postponed, and begins again
		r.holds = true
		s.locked.begin(r.nodesLocked()...)
	}
	s.mu.Lock()
	if r.op() == opInterrupt {
		if about := s.pending[r.target()]; about != nil {
			about.interrupted = true
		}
	}
	s.pending[r.unique()] = r
	r.suspended = s.suspending
	s.mu.Unlock()
	r.order = s.threads.begin(r.thread(), r.waits())
	r.began = time.Now()
	for !s.answer(r) {
	}
}

// largeAnswers are buffers for answers that do not fit smallAnswer.
var largeAnswers = sync.Pool{New: func() any { b := make([]byte, maxFixed+MaxRequest); return &b }}

// interruptPause is the time between an interrupt that finds no request and its repetition.
const interruptPause = time.Millisecond

// smallAnswer is the size in bytes up to which each answer gets a new buffer.
const smallAnswer = 8 << 10

// answer reports whether the request was answered or postponed. Otherwise the request must begin again.
func (s *server) answer(r *request) bool {
	room := r.room()
	var out []byte
	if room > smallAnswer && room <= maxFixed+MaxRequest {
		large := largeAnswers.Get().(*[]byte)
		defer largeAnswers.Put(large)
		out = (*large)[:room]
	} else {
		out = make([]byte, room)
	}
	n, _ := s.protocol.HandleRequest([][]byte{r.raw}, [][]byte{out})
	switch s.finish(r, out[:n]) {
	case begunAnew:
		s.locked.end(r.takeDescribed()...)
		return false
	case isPostponed:
		s.locked.end(r.takeDescribed()...)
		return true
	}
	s.keeper.Load().answered(r)
	s.operations.answered(r.op(), time.Since(r.began), statusOf(out[:n]))
	if n >= outHeaderSize { // otherwise the kernel expects no answer
		if r.op() == opInterrupt { // of a request that has not begun, or has ended: the kernel repeats it at once
			<-time.After(interruptPause)
		}
		s.write(r, out[:n])
	}
	if s.recorder.On() {
		s.recorder.Add(r.event())
	}
	s.locked.end(append(r.nodesLocked(), r.takeDescribed()...)...)
	if r.buffer != nil {
		readBuffers.Put(r.buffer)
	}
	return true
}

func (s *server) write(r *request, answer []byte) {
	if r.content != nil && statusOf(answer) == 0 {
		binary.NativeEndian.PutUint32(answer, uint32(len(answer)+len(r.content)))
	} else {
		r.content = nil
	}
	err := s.conn.write(answer, r.content)
	if err == nil || errors.Is(err, unix.ENOENT) { // its program is gone
		return
	}
	s.logger.Error("the kernel refuses an answer: the program gets an I/O error", "operation", operationName(int(r.op())), "inode", r.node(), "error", err)
	code := -int32(unix.EIO)
	failed := binary.NativeEndian.AppendUint32(nil, outHeaderSize)
	failed = binary.NativeEndian.AppendUint32(failed, uint32(code))
	if err := s.conn.write(binary.NativeEndian.AppendUint64(failed, r.unique())); err != nil && !errors.Is(err, unix.ENOENT) {
		s.logger.Error("the kernel refuses an error: the program waits until it is killed", "error", err)
	}
}

// verdict is the outcome of a handled request.
type verdict int

const (
	isAnswered  verdict = iota
	isPostponed         // to the next process that serves
	begunAnew
)

// finish removes a request from the list. A request that failed only because the server was suspended is
// postponed for the next process that serves the mount: a successor or, if there is none, this process.
func (s *server) finish(r *request, answer []byte) verdict {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case !r.suspended || r.interrupted || statusOf(answer) != -int32(unix.EINTR):
		delete(s.pending, r.unique())
		return isAnswered
	case s.suspending:
		delete(s.pending, r.unique())
		s.postponed = append(s.postponed, r)
		return isPostponed
	}
	r.suspended = false
	return begunAnew
}

// suspend makes the server leave requests that are interrupted from now on to the next process.
func (s *server) suspend() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.suspending = true
	for _, r := range s.pending {
		r.suspended = true
	}
}

// endSuspension undoes suspend, and returns the postponed requests.
func (s *server) endSuspension() (postponed []*request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.suspending = false
	postponed, s.postponed = s.postponed, nil
	return postponed
}

// dropPostponed forgets the postponed requests.
func (s *server) dropPostponed() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.postponed {
		s.locked.forget(r.nodesLocked()...)
	}
	s.postponed = nil
}

// attach sets the content behind the header of the answer to a read. It reports whether there is such a
// request.
func (s *server) attach(unique uint64, content []byte) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.pending[unique]
	if r != nil {
		r.content = content
	}
	return r != nil
}

// describe records a node that the answer to a request describes. It reports whether there is such a request.
func (s *server) describe(unique uint64, node hold) (Order, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.pending[unique]
	if r == nil {
		return Order{}, false
	}
	r.described = append(r.described, node)
	s.locked.begin(node)
	return r.order, true
}
