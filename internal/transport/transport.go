package transport

import (
	"context"
	"errors"
	"fmt"

	"github.com/globalfs/globalfs/pkg/multicast"
)

// Bounds of what one process takes from another, in bytes.
const (
	// MaxFrame is the longest frame that a link carries.
	MaxFrame = multicast.MaxFrame
	// MaxCall is the longest request and the longest reply of a call: a block of 1 MiB
	// with room for what goes around it.
	MaxCall = 4 << 20
	// Window is how much may be sent to one peer and not yet be taken by its Receive.
	Window = multicast.Window

	// frameOverhead is what a frame counts for beside its bytes, so that the window also
	// bounds the number of tiny frames.
	frameOverhead = 64
	// maxErrorText cuts the text of a handler's error.
	maxErrorText = 4 << 10
)

var (
	// ErrBacklog says that a peer does not take what it is sent: its window was full, or
	// was and its link has not started again yet.
	ErrBacklog = errors.New("the peer's window is full")
	// ErrTooLong says that a frame is longer than MaxFrame. The link that should have carried it starts
	// again.
	ErrTooLong = errors.New("frame too long")
	// ErrClosed says that these links, or this endpoint, were closed.
	ErrClosed = errors.New("closed")
	// ErrUnreachable says that a called process is unknown, not running or cut off. The request may
	// have been executed all the same if the connection broke under it.
	ErrUnreachable = errors.New("process unreachable")
)

// RemoteError is the error of the handler that a call reached.
type RemoteError struct{ Text string }

func (e *RemoteError) Error() string { return "remote: " + e.Text }

// Links carry frames between this process and its peers. All methods may be called
// from several goroutines; the frames of one caller keep their order.
type Links interface {
	// Send queues a frame to a peer and never blocks: it leaves with Flush. The bytes must not change any more.
	// A peer that is down, unknown or not started yet is no error: the link to it starts
	// when it can, and what was sent before is dropped, as multicast.Frame says. Errors are
	// ErrBacklog, ErrClosed, ErrTooLong, and a frame that is empty. A frame that is too long is lost like
	// those that follow a full window: the peer must not hear frames that come after a gap, so the link
	// starts again at both ends.
	Send(to multicast.ProcessID, frame []byte) error
	// Accept answers the start of a link: a received frame without data. Exactly what is sent
	// after it belongs to the link that started, and what was sent before is lost. Call it
	// once for each such frame, in order, before the first Send that knows of it.
	Accept(peer multicast.ProcessID)
	// Flush lets leave what was sent. It may write to connections, and does not wait for a peer.
	Flush()
	// Take appends to into what has arrived, at most so many frames, and does not wait.
	Take(into []multicast.Frame, most int) []multicast.Frame
	// Notify has f called, once, before the first Take. f is called after frames have arrived that may not be taken
	// yet, and tells whether it may do work: if so, it is called by a goroutine that reads from a connection; if
	// not, it must neither block nor use the links.
	Notify(f func(mayWork bool))
	// Close ends all links. Peers hear nothing of it until the process is back.
	Close() error
}

// Handler answers a call. Many run at a time. ctx ends when the caller gives up or the endpoint
// closes. Neither request nor reply may be changed afterwards by either side.
type Handler func(ctx context.Context, request []byte) ([]byte, error)

// Caller is who waits for the answer to a call.
type Caller interface {
	// Answer ends the call. It is called at most once, does not wait, and changes nothing after Withdraw. Neither
	// side changes the reply afterwards.
	Answer(reply []byte, err error)
}

// Asynchronous answers calls without a goroutine that waits for each.
type Asynchronous interface {
	// Begin takes a request in, and may work for the process. The caller is answered later, or before Begin
	// returns. False: the Handler has to answer. ctx tells who calls (PeerOf), and ends with the connection.
	Begin(ctx context.Context, request []byte, caller Caller) (token uint64, begun bool)
	// Withdraw says that nobody waits for the answer any more.
	Withdraw(token uint64)
}

// Endpoint is one process's access to the network.
type Endpoint interface {
	// Links opens the process's links, once. The incarnation is positive and
	// higher than at every earlier start of this process.
	Links(incarnation uint64) (Links, error)
	// Serve answers calls to this process, once. Before it, callers find it unreachable.
	Serve(h Handler)
	// ServeLater has a answer the calls that it takes in, and the Handler the others. Call it before Serve, if at
	// all. Not each provider uses it.
	ServeLater(a Asynchronous)
	// Call asks another process. Errors: ErrUnreachable, *RemoteError, ctx's, or ErrClosed.
	Call(ctx context.Context, to multicast.ProcessID, request []byte) ([]byte, error)
	// Close ends the links and returns when no handler runs any more.
	Close() error
}

// checkFrame says why a frame cannot be sent on any link, or nil.
func checkFrame(frame []byte) error {
	if len(frame) == 0 {
		return errors.New("an empty frame cannot be sent: it would mean that the link starts")
	}
	return nil
}

// tooLong is the error for a frame to a peer that is longer than MaxFrame.
func tooLong(to multicast.ProcessID, frame []byte) error {
	return fmt.Errorf("link to process %d: a frame of %d bytes cannot be sent, the longest has %d: %w", to, len(frame), MaxFrame, ErrTooLong)
}

// unreachable wraps ErrUnreachable.
func unreachable(to multicast.ProcessID, why string) error {
	if to == controlProcess {
		return fmt.Errorf("server: %w: %s", ErrUnreachable, why)
	}
	return fmt.Errorf("process %d: %w: %s", to, ErrUnreachable, why)
}
