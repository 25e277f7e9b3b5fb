// Package transport connects the processes of a cluster. It offers links, which carry the frames of the
// protocols between processes, and calls, which clients and storage servers use for requests and replies.
// Frames, requests and replies are opaque bytes.
//
// # Links
//
// A link is a pair of FIFO streams of frames between two processes. A link lives through a sequence of
// sessions. In a session no frame is lost, duplicated or reordered, however often connections break. A
// session ends when one of the processes restarts with a higher incarnation, or when a window overflows.
// The owner of an end, which is the process that uses it, learns of a new session by a start: Links.Take
// returns a frame without data. The owner answers it with Links.Accept. Then:
//
//   - the frames received between two starts are a prefix of the frames that the peer sent between two of its
//     Accepts. If that session is the last, the processes live and the network heals, all of these frames
//     arrive;
//   - a frame that is sent between sessions is dropped, and so is a frame that is sent between a start and
//     its Accept: the owner has sent it before it learned of the session, as a part of a conversation of
//     which the earlier frames are lost.
//
// The link to a peer begins when either end first sends to the other. Each process also has a link to itself.
//
// # The window
//
// The window bounds the data that was sent to a peer and that the peer has not taken with Take: at most
// Window bytes. When a frame would exceed the window, the session ends: the queue is dropped, and Send
// returns ErrBacklog until a new session begins. It begins when the peer has taken all frames of earlier
// sessions. So a peer that is slow or down costs at most one window at each end.
//
// # Calls
//
// A call has at most one answer. After ErrUnreachable the caller can try another process. ErrUnreachable does
// not mean that the request was not executed; requests that must not be executed twice carry their own
// numbers.
//
// Process 0 at an address is the server itself: Server.Control sets the handler, CallAddress sends the call.
//
// # Implementations
//
// Local connects the processes of one OS process, optionally with delays: the embedded cluster. Listen and
// Dial use TCP. A Server is one address, which many processes share. Acknowledgements travel with frames; in
// addition every link sends its position each second. link.go is the protocol as a pure state machine.
//
// Two providers reach the servers at other addresses. Both use the same port; ALPN names the protocol, and
// without TLS a greeting does.
//
//   - The framed protocol, globalfs/1: each message begins with its length, kind and number (framing.go).
//     Between two addresses there is, in each direction, a connection for the packets of links, one for
//     calls, and one for calls that carry more than 64 KiB, so that small calls do not wait behind blocks
//     of data. A goroutine with a message writes it itself; messages that become ready during a write leave
//     together in the next one. The goroutine that reads hands packets to their links, and may run a turn
//     of the receiving process: one step of its core, with its output (package driver; Links.Notify). In
//     the turn Links.Flush writes the messages of the process. No turn waits for a peer: another goroutine
//     writes the bytes that a socket does not take at once. Calls to processes with Endpoint.ServeLater
//     have no goroutine: the turn that computes the answer writes it. Other calls go to goroutines that are
//     kept for them.
//   - gRPC, for servers and clients of earlier versions: one connection, with one stream for the packets of
//     links. A client tries the framed protocol again after a minute with a server that speaks only gRPC.
//
// # Streams
//
// A server can turn a framed connection that it has opened into a stream of bytes between a process of its
// own and one of the peer (Streams): the connection carries no messages any more. To a server of the same
// host, a stream can be a Unix socket instead (SharedWay), over which both processes pass memory. The peer
// admits servers only. Expiry and revocation of certificates end a stream like any connection. Nothing pings:
// the processes notice a silent peer themselves.
//
// A process may move to another server: a Server calls Config.Resolve periodically, and its links follow.
//
// # Shared memory
//
// With Config.SharedMemory and Credentials a Server also listens on a Unix socket without a file, at a random
// name. The change of a connection to shared memory has these steps:
//
//  1. The server sends the name of the socket on each framed connection.
//  2. The client connects to the name. If that succeeds, the server is on the same host.
//  3. Both make the handshake of TLS again on the socket. The client compares the identity of the server with
//     that on the first connection.
//  4. Inside of TLS the server sends its user and the name of its socket. The client compares them with the
//     user at the other end of the socket, and with the name to which it has connected. This excludes a
//     process that relays the handshake to read the shared memory afterwards: it runs as another user.
//  5. Inside of TLS the client accepts. So no relay can accept in its place.
//  6. The connection continues in shared memory (package shmconn), with the messages, limits and timers of
//     the framed protocol. The first connection ends.
//
// After a failure the first connection stays. The next connection after a minute tries again.
//
// A stream that is a socket (SharedWay) begins in the same way, with the ALPN name globalfs/1-memory. In step
// 5 the client also names the two processes. In step 6 the server sends one byte outside of TLS, and from
// then on the socket belongs to the two processes (package pkg/fabric/shm). The first connection ends.
//
// # Access control
//
// With Config.Credentials all connections use mutual TLS (package identity documents the checks), and a
// handler gets the identity of the caller from PeerOf. Links are for servers only: each server can act for
// any process. Clients and admins make calls, and the handlers decide which calls are allowed. Without
// Credentials any program that can connect can act for any process, so only loopback addresses are
// accepted.
//
// A gate makes the handshakes before either protocol sees a connection. A handshake has five seconds. When
// too many are under way, the oldest is closed, so silent peers keep nobody out. A connection ends when the
// certificate that opened it expires.
//
// The work that one peer can cause at a server is bounded:
//
//   - for any peer: MaxFrame, MaxCall, the length of headers, and a Window for each link
//   - for all clients and admins together: 8192 connections
//   - for each client or admin: 128 connections with 256 calls under way on each, 1024 in all; 256 MiB of
//     requests that are read or answered; as many calls a second as Config allows. Work above the limits
//     waits for its turn until its deadline; calls beyond 1024 and connections beyond 128 are refused.
//
// A request is read when its client has its turn. Until then a framed connection is not read at all: the data
// stays in the network. With gRPC at most 1 MiB of each request is read, so that the 1024 calls cost at most
// 1 GiB. Replies that a client requests and does not read wait in memory, MaxCall for each of the 256 calls
// of a connection. A framed connection breaks if its peer takes no data for 15 seconds, if its peer sends
// nothing and does not answer a ping for 15 seconds, or if a message that has begun is not complete after two
// minutes. The server sends the peer the reason first.
package transport
