package mount

import (
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"github.com/globalfs/globalfs/internal/posix"
)

// server reads requests, has them answered, and writes the answers. Decoding and encoding are go-fuse's; its loop cannot stop before
// the connection ends, ours can: see handover.go.
type server struct {
	conn     *connection
	protocol *fuse.ProtocolServer
	logger   *slog.Logger
	terms    terms
	root     posix.Ino // the directory that the mount shows

	operations operations

	keeper atomic.Pointer[Keeper] // nil: none is told

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

func newServer(conn *connection, f *fileSystem, root posix.Ino, options *fuse.MountOptions, logger *slog.Logger) *server {
	s := &server{
		conn: conn, protocol: fuse.NewProtocolServer(f, options), logger: logger, root: root, pending: map[uint64]*request{},
		operations: operations{failed: map[failure]uint64{}},
	}
	f.server = s
	return s
}

// greet answers the kernel's first request, which says what it can.
func (s *server) greet() error {
	buf := make([]byte, readBuffer)
	n, err := s.conn.read(buf, s.conn.pauses.Load())
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

// shift is the time from when reading begins until it is paused, or the connection ends.
type shift struct {
	*server
	pauses uint64 // before it
	why    chan error
	loops  sync.WaitGroup
	idle   atomic.Int32 // loops that wait for a request, or are about to
}

// shift begins one, with requests that were left.
func (s *server) shift(left []*request) *shift {
	t := &shift{server: s, pauses: s.conn.pauses.Load(), why: make(chan error, 1)}
	t.idle.Store(1)
	t.loops.Go(t.loop)
	for _, r := range left {
		t.loops.Go(func() { t.serve(r) })
	}
	return t
}

// wait returns when all that was read is answered or left, and nothing more is read. ended is called before if the connection has
// ended: nobody waits for answers then.
func (t *shift) wait(ended func()) error {
	err := <-t.why
	if !errors.Is(err, errPaused) {
		ended()
	}
	t.loops.Wait()
	return err
}

// loop reads a request, makes sure that somebody else reads on, and answers it. More than one that wait for requests save
// goroutines; more than there are processors only take room.
func (t *shift) loop() {
	for {
		r, err := t.read(t.pauses)
		if err != nil {
			select {
			case t.why <- err:
			default: // all end for the same reason
			}
			return
		}
		if t.idle.Add(-1) == 0 && !r.unanswered() {
			t.idle.Add(1)
			t.loops.Go(t.loop)
		}
		t.serve(r)
		if int(t.idle.Add(1)) > max(2, runtime.GOMAXPROCS(0)) {
			t.idle.Add(-1)
			return
		}
	}
}

var readBuffers = sync.Pool{New: func() any { b := make([]byte, readBuffer); return &b }}

// read reads one request.
func (s *server) read(pauses uint64) (*request, error) {
	buf := readBuffers.Get().(*[]byte)
	n, err := s.conn.read(*buf, pauses)
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

// serve answers a request.
func (s *server) serve(r *request) {
	if r.unanswered() {
		s.protocol.HandleRequest([][]byte{r.raw}, nil)
		return
	}
	r.show(s.root)
	s.mu.Lock()
	if r.op() == opInterrupt {
		if about := s.pending[r.target()]; about != nil {
			about.interrupted = true
		}
	}
	s.pending[r.unique()] = r
	r.suspended = s.suspending
	s.mu.Unlock()
	r.began = time.Now()
	for !s.answer(r) {
	}
}

// largeAnswers are buffers for those that do not fit smallAnswer.
var largeAnswers = sync.Pool{New: func() any { b := make([]byte, maxFixed+maxRequest); return &b }}

// smallAnswer is the size up to which an answer's buffer is made for it, in bytes.
const smallAnswer = 8 << 10

// answer reports whether the request has its answer, or is left. Otherwise it has to be begun anew.
func (s *server) answer(r *request) bool {
	room := r.room()
	var out []byte
	if room > smallAnswer && room <= maxFixed+maxRequest {
		large := largeAnswers.Get().(*[]byte)
		defer largeAnswers.Put(large)
		out = (*large)[:room]
	} else {
		out = make([]byte, room)
	}
	n, _ := s.protocol.HandleRequest([][]byte{r.raw}, [][]byte{out})
	switch s.finish(r, out[:n]) {
	case begunAnew:
		return false
	case isLeft:
		return true
	}
	s.keeper.Load().answered(r)
	s.operations.answered(r.op(), time.Since(r.began), statusOf(out[:n]))
	if n >= outHeaderSize { // otherwise no answer is wanted
		s.write(r, out[:n])
	}
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
	if err := s.conn.write(answer, r.content); err != nil && !errors.Is(err, unix.ENOENT) { // its program is gone
		s.logger.Debug("the kernel refuses an answer", "operation", r.op(), "inode", r.node(), "error", err)
	}
}

// verdict says what becomes of a request that was handled.
type verdict int

const (
	isAnswered verdict = iota
	isLeft             // to who serves next
	begunAnew
)

// finish takes a request off the list. What was given up only because the server was suspended is left to who serves next: a
// successor or, if there is none, this one.
func (s *server) finish(r *request, answer []byte) verdict {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case !r.suspended || r.interrupted || statusOf(answer) != -int32(unix.EINTR):
		delete(s.pending, r.unique())
		return isAnswered
	case s.suspending:
		delete(s.pending, r.unique())
		s.left = append(s.left, r)
		return isLeft
	}
	r.suspended = false
	return begunAnew
}

// suspend makes requests that are given up from now on be left.
func (s *server) suspend() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.suspending = true
	for _, r := range s.pending {
		r.suspended = true
	}
}

// goOn undoes suspend, and gives what was left.
func (s *server) goOn() (left []*request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.suspending = false
	left, s.left = s.left, nil
	return left
}

// dropLeft forgets what was left.
func (s *server) dropLeft() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.left = nil
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
