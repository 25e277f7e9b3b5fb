package transport

import (
	"context"
	"errors"
	"fmt"

	"github.com/globalfs/globalfs/pkg/multicast"
)

// Bounds for the traffic between two processes, in bytes.
const (
	// MaxFrame is the longest frame that a link carries.
	MaxFrame = multicast.MaxFrame
	// MaxCall is the longest request and the longest reply of a call: a block of 1 MiB with room for its
	// overhead.
	MaxCall = 4 << 20
	// Window bounds the bytes that are sent to one peer and not yet taken by it.
	Window = multicast.Window

	// frameOverhead is the charge for a frame in addition to its bytes, so that the window also bounds the
	// number of tiny frames.
	frameOverhead = 64
	// maxErrorText is the maximum length of the text of a handler's error; longer texts are cut.
	maxErrorText = 4 << 10
)

var (
	// ErrBacklog means that a peer does not take its frames: its window is full, or was full and its link has
	// not restarted yet.
	ErrBacklog = errors.New("the peer's window is full")
	// ErrTooLong means that a frame is longer than MaxFrame. The link of the frame restarts.
	ErrTooLong = errors.New("frame too long")
	// ErrClosed means that these links, or this endpoint, were closed.
	ErrClosed = errors.New("closed")
	// ErrUnreachable means that the called process is unknown, not running or cut off. If the connection
	// broke during the call, the request may have been executed nevertheless.
	ErrUnreachable = errors.New("process unreachable")
)

// RemoteError is the error of the handler that a call reached.
type RemoteError struct{ Text string }

func (e *RemoteError) Error() string { return "remote: " + e.Text }

// Links carry frames between this process and its peers. All methods may be called from several goroutines;
// the frames of one caller keep their order.
type Links interface {
	// Send queues a frame to a peer and never blocks; the frame leaves with Flush. The bytes must not change
	// any more. A peer that is down, unknown or not started yet is no error: the link to it starts when it
	// can, and earlier frames are dropped, see multicast.Frame. Errors are ErrBacklog, ErrClosed, ErrTooLong,
	// and an error for an empty frame. A frame that is too long is lost like the frames after a full window:
	// the peer must not receive frames after a gap, so the link restarts at both ends.
	Send(to multicast.ProcessID, frame []byte) error
	// Accept answers the start of a link: a received frame without data. Exactly the frames sent after it
	// belong to the link that started; earlier frames are lost. Call Accept once for each start, in order,
	// before the first Send that depends on the start.
	Accept(peer multicast.ProcessID)
	// Flush writes the sent frames to connections. It does not wait for a peer.
	Flush()
	// Take appends the frames that have arrived to into, at most most, and does not wait.
	Take(into []multicast.Frame, most int) []multicast.Frame
	// Notify sets f, once, before the first Take. f is called after frames have arrived that may not be taken
	// yet. If mayWork is true, f runs in a goroutine that reads from a connection and may do work; otherwise
	// f must neither block nor use the links.
	Notify(f func(mayWork bool))
	// Close ends all links. Peers learn of it only when the process has opened its links again.
	Close() error
}

// Handler answers a call. It is called concurrently. ctx ends when the caller gives up or the endpoint
// closes. Neither side may change request or reply afterwards.
type Handler func(ctx context.Context, request []byte) ([]byte, error)

// Caller is the party that waits for the answer to a call.
type Caller interface {
	// Answer ends the call. It is called at most once, does not wait, and has no effect after Withdraw.
	// Neither side changes the reply afterwards.
	Answer(reply []byte, err error)
}

// Asynchronous answers calls without a goroutine that waits for each.
type Asynchronous interface {
	// Begin takes a request, and may do work of the process. It calls caller.Answer later, or before it
	// returns. If begun is false, the Handler must answer instead. ctx has the identity of the caller
	// (PeerOf), and ends with the connection.
	Begin(ctx context.Context, request []byte, caller Caller) (token uint64, begun bool)
	// Withdraw means that the caller does not wait for the answer any more.
	Withdraw(token uint64)
}

// Endpoint is the network access of one process.
type Endpoint interface {
	// Links opens the process's links, once. The incarnation is positive and higher than at every earlier
	// start of this process.
	Links(incarnation uint64) (Links, error)
	// Serve sets the handler of calls to this process, once. Before that, callers get ErrUnreachable.
	Serve(h Handler)
	// ServeAndForget is Serve of a handler that keeps neither a request nor its reply once the call is over.
	// A connection may then use their memory again (package buffers).
	ServeAndForget(h Handler)
	// ServeLater sets the Asynchronous that answers the calls that it takes in; the Handler answers the
	// others. If used, call it before Serve. Not every provider uses it.
	ServeLater(a Asynchronous)
	// Call calls another process. Errors: ErrUnreachable, *RemoteError, the error of ctx, or ErrClosed.
	Call(ctx context.Context, to multicast.ProcessID, request []byte) ([]byte, error)
	// Close ends the links and returns when no handler runs any more.
	Close() error
}

// checkFrame returns the reason why a frame cannot be sent on any link, or nil.
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
