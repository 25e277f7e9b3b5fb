// Package transport connects processes: links that carry opaque frames, for the protocols, and calls, for
// clients and storage. It knows no message types (DESIGN 4.1, links; STYLE 4).
//
// # Links
//
// A link is a pair of FIFO streams of frames between two processes. Its life is a row of sessions. In a
// session no frame is lost, doubled or reordered, however often connections break. A session ends when
// one of the processes restarts, which its higher incarnation tells, or when a window overflows. Each
// session begins at each end with a frame without data, from Links.Receive, and then:
//
//   - what is received between two starts is a prefix of what the peer sent between two of its Accepts,
//     and, if the processes live and the network heals, all of it in the end if that session is the last;
//   - a frame sent in between sessions is dropped, and so is one sent after a start that is
//     not accepted yet. Without this an owner that has not seen a start could put the second half of a
//     conversation, whose first half is lost, at the beginning of the new session.
//
// The link to a peer begins when either end first sends to the other. Each process has
// a link to itself, too.
//
// # The window
//
// A peer may be sent Window bytes more than its owner has taken by Receive. The frame that would go over it
// gets ErrBacklog, everything queued is dropped, and all later frames get ErrBacklog until a
// new session begins, at both ends. That is when the peer's owner has taken what
// it still had from earlier: a peer that is slow or down costs at most a window at each side, and is
// not drowned again before it has drained.
//
// # Calls
//
// A call has at most one answer. ErrUnreachable means: ask another. It does not mean that nothing happened;
// requests that must not be executed twice carry their own numbers.
//
// # Implementations
//
// Local connects the processes of one OS process, with delays if wanted: the embedded cluster. Listen and Dial use
// gRPC over TCP. A Server is one address, which many processes share. There is one connection from each address to
// each other one, with one stream for all frames of that direction; calls take the same connection. What becomes
// ready while a write is under way leaves together in the next. Acknowledgements ride on frames; beside that
// every link says each second where it stands. link.go is the protocol as a pure state machine.
//
// Connections are neither encrypted nor authenticated yet: whoever can connect can speak for any process. So only
// loopback addresses are accepted, unless Config.Exposed says that the network is trusted.
package transport
