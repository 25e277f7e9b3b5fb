package mount

import (
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// server reads requests, has them answered, and writes the answers. Decoding and encoding are go-fuse's; its loop cannot stop before
// the connection ends, ours can: see handover.go.
type server struct {
	conn     *connection
	protocol *fuse.ProtocolServer
	logger   *slog.Logger
	terms    terms

	loops sync.WaitGroup
	idle  atomic.Int32 // loops that wait for a request, or are about to

	mu         sync.Mutex
	pending    map[uint64]*request // GUARDED_BY mu; by unique
	suspending bool                // GUARDED_BY mu; what is given up is left to a successor
	left       []*request          // GUARDED_BY mu; what was given up
}

// terms are what kernel and server agreed upon when the mount was made, word by word.
type terms struct {
	Asked    []byte `json:"asked"`    // INIT
	Answered []byte `json:"answered"` // with its header
}

func newServer(conn *connection, f *fileSystem, options *fuse.MountOptions, logger *slog.Logger) *server {
	s := &server{
		conn: conn, protocol: fuse.NewProtocolServer(f, options), logger: logger, pending: map[uint64]*request{},
	}
	f.server = s
	return s
}

// greet answers the kernel's first request, which says what it can.
func (s *server) greet() error {
	buf := make([]byte, readBuffer)
	n, err := s.conn.read(buf)
	if err != nil {
		return fmt.Errorf("the kernel does not begin: %w", err)
	}
	if s.terms, err = s.agree(buf[:n:n]); err != nil {
		return err
	}
	return s.conn.write(s.terms.Answered)
}

// agree gives the terms that a kernel which asks so gets. Requests can be answered after it.
func (s *server) agree(asked []byte) (terms, error) {
	if len(asked) < inHeaderSize || (&request{raw: asked}).op() != opInit {
		return terms{}, errors.New("the kernel does not begin with INIT")
	}
	answer := make([]byte, maxFixed)
	n, status := s.protocol.HandleRequest([][]byte{asked}, [][]byte{answer})
	if n < outHeaderSize || !status.Ok() || statusOf(answer) != 0 {
		return terms{}, fmt.Errorf("the kernel's FUSE protocol is too old: INIT gives %v", status)
	}
	return terms{asked, answer[:n]}, nil
}

// resends reports whether the kernel sends again what a dead server had read.
func (t *terms) resends() bool {
	flags2 := uint32At(t.Answered, outHeaderSize+32) // of struct fuse_init_out
	return uint64(flags2)<<32&fuse.CAP_HAS_RESEND != 0 && uint64(uint32At(t.Asked, inHeaderSize+16))<<32&fuse.CAP_HAS_RESEND != 0
}

// statusOf gives the negative errno of an answer.
func statusOf(answer []byte) int32 { return int32(uint32At(answer, 4)) }

// readBuffer fits the largest request: one of maxRequest bytes to write.
const readBuffer = maxRequest + 4<<10

// smallRequest is the size up to which a request is copied out of the reader's buffer.
const smallRequest = 4 << 10

// serve has requests read and answered until it is paused, errPaused, or the connection ends. All that was read is answered then,
// or left.
func (s *server) serve() error {
	s.idle.Store(1)
	why := make(chan error, 1)
	s.loops.Go(func() { s.loop(why) })
	s.loops.Wait()
	return <-why
}

// loop reads a request, makes sure that somebody else reads on, and answers it. More than one that wait for requests save
// goroutines; more than there are processors only take room.
func (s *server) loop(why chan error) {
	for {
		r, err := s.read()
		if err != nil {
			select {
			case why <- err:
			default: // all end for the same reason
			}
			return
		}
		if s.idle.Add(-1) == 0 && !r.unanswered() {
			s.idle.Add(1)
			s.loops.Go(func() { s.loop(why) })
		}
		s.serveOne(r)
		if int(s.idle.Add(1)) > max(2, runtime.GOMAXPROCS(0)) {
			s.idle.Add(-1)
			return
		}
	}
}

var readBuffers = sync.Pool{New: func() any { b := make([]byte, readBuffer); return &b }}

// read reads one request.
func (s *server) read() (*request, error) {
	buf := readBuffers.Get().(*[]byte)
	n, err := s.conn.read(*buf)
	switch {
	case err != nil:
		return nil, err
	case n < inHeaderSize:
		return nil, fmt.Errorf("/dev/fuse: a request of %d bytes", n)
	case n > smallRequest:
		return &request{raw: (*buf)[:n:n], buffer: buf}, nil
	}
	defer readBuffers.Put(buf)
	return &request{raw: append([]byte(nil), (*buf)[:n]...)}, nil
}

// serveOne answers a request.
func (s *server) serveOne(r *request) {
	if r.unanswered() {
		s.protocol.HandleRequest([][]byte{r.raw}, nil)
		return
	}
	s.mu.Lock()
	if r.op() == opInterrupt {
		if about := s.pending[r.target()]; about != nil {
			about.interrupted = true
		}
	}
	s.pending[r.unique()] = r
	s.mu.Unlock()
	s.answer(r)
}

// largeAnswers are buffers for those that do not fit smallAnswer.
var largeAnswers = sync.Pool{New: func() any { b := make([]byte, maxFixed+maxRequest); return &b }}

// smallAnswer is the size up to which an answer's buffer is made for it, in bytes.
const smallAnswer = 8 << 10

func (s *server) answer(r *request) {
	room := r.room()
	out := []byte(nil)
	if room > smallAnswer && room <= maxFixed+maxRequest {
		large := largeAnswers.Get().(*[]byte)
		defer largeAnswers.Put(large)
		out = (*large)[:room]
	} else {
		out = make([]byte, room)
	}
	n, _ := s.protocol.HandleRequest([][]byte{r.raw}, [][]byte{out})
	if !s.finish(r, out[:n]) {
		return
	}
	if r.buffer != nil {
		defer readBuffers.Put(r.buffer)
	}
	if n < outHeaderSize {
		return // no answer is wanted
	}
	if r.content != nil && statusOf(out) == 0 {
		binary.NativeEndian.PutUint32(out, uint32(n+len(r.content)))
	} else {
		r.content = nil
	}
	if err := s.conn.write(out[:n], r.content); err != nil && !errors.Is(err, unix.ENOENT) { // its program is gone
		s.logger.Debug("the kernel refuses an answer", "operation", r.op(), "inode", r.node(), "error", err)
	}
}

// finish takes a request off the list, and reports whether its answer is to be written. What was given up only because the server
// is suspended is left to who serves next.
func (s *server) finish(r *request, answer []byte) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.pending, r.unique())
	if s.suspending && !r.interrupted && statusOf(answer) == -int32(unix.EINTR) {
		s.left = append(s.left, r)
		return false
	}
	return true
}

// attach gives content that belongs behind the header of the answer to a read. It reports whether there is such a request.
func (s *server) attach(unique uint64, content []byte) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.pending[unique]
	if r != nil {
		r.content = content
	}
	return r != nil
}

// forgetAttributes makes the kernel ask for the attributes of a node anew, before it uses anything that it knows of it.
func (s *server) forgetAttributes(node uint64) {
	if s.conn == nil {
		return // nobody is served
	}
	body := binary.NativeEndian.AppendUint64(nil, node)
	body = binary.NativeEndian.AppendUint64(body, ^uint64(0)) // a negative offset: no pages
	body = binary.NativeEndian.AppendUint64(body, 0)
	_ = s.conn.notify(noticeInvalidInode, body) // a node that the kernel does not know has no attributes either
}
