// Package transport connects processes: links that carry opaque frames, for the protocols, and calls, for
// clients and storage. It knows no message types (DESIGN 4.1, links; STYLE 4).
//
// # Links
//
// A link is a pair of FIFO streams of frames between two processes. Its life is a row of sessions. In a
// session no frame is lost, doubled or reordered, however often connections break. A session ends when
// one of the processes restarts, which its higher incarnation tells, or when a window overflows. Each
// session begins at each end with a frame without data, from Links.Take, and then:
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
// A peer may be sent Window bytes more than its owner has taken by Take. The frame that would go over it
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
// Process 0 at an address is the server itself: Server.Control answers, CallAddress asks.
//
// # Implementations
//
// Local connects the processes of one OS process, with delays if wanted: the embedded cluster. Listen and
// Dial use TCP. A Server is one address, which many processes share. Acknowledgements ride on frames; beside
// that every link says each second where it stands. link.go is the protocol as a pure state machine.
//
// Two providers reach the servers at other addresses. Both use the same port; ALPN names the protocol, and
// without TLS a greeting does.
//
//   - The framed protocol, globalfs/1: messages with their length, kind and number in front (framing.go). From
//     each address to each other one there is a connection for the packets of links, one for calls, and one for
//     calls that carry more than 64 KiB, so that small calls do not wait behind blocks of data. Whoever has a
//     message writes it; what becomes ready while a write is under way leaves together in the next. The
//     goroutine that reads hands packets to their links, and may take the turn of the process that they are for
//     (Links.Notify); Links.Flush writes what that process sends. No turn waits for a peer: a goroutine writes
//     what a socket does not take at once. Calls to processes that take calls in (Endpoint.ServeLater) have no
//     goroutine: the turn with the answer writes it. The other calls go to goroutines that are kept for them.
//   - gRPC, for servers and clients of earlier versions: one connection, with one stream for the packets of
//     links. A server that speaks only gRPC is asked again for the framed protocol after a minute.
//
// A process may move to another server: a Server asks Config.Resolve again and again, and its links follow.
//
// # Who may come in
//
// With Config.Credentials all connections are mutual TLS (package identity has what is checked), and a
// handler learns from PeerOf who calls. Links are for servers only: each can speak for any process. Clients
// and admins make calls, and the handlers decide which. Without Credentials whoever can connect can speak for
// any process, so only loopback addresses are accepted.
//
// A gate makes the handshakes before either protocol sees a connection. These have five seconds, and when too many are
// under way the oldest is closed: who says nothing keeps nobody out. A connection ends with the certificate
// that it was opened with.
//
// What one peer can make a server do is bounded:
//
//   - by anybody: MaxFrame, MaxCall, the length of headers, and a Window for each link
//   - by all clients and admins: 8192 connections
//   - by each of them: 128 connections with 256 calls under way on each, 1024 in all; 256 MiB of requests that
//     are read or answered; as many calls a second as Config says. What is more waits for its turn until its
//     deadline; the calls beyond 1024 and the connections beyond 128 are refused.
//
// A request is not read before it is its client's turn. Until then a framed connection is not read at all: what
// comes stays in the network. With gRPC no more than 1 MiB of each request is taken, so that the 1024 cost 1 GiB
// at most. Replies that a client asks for and does not take wait in memory, MaxCall for each of the 256 calls of
// a connection. A framed connection breaks if its peer takes nothing, or says nothing and does not answer a ping,
// for 15 seconds, and if a message that has begun is not complete after two minutes. The server tells the peer
// the reason first.
package transport
