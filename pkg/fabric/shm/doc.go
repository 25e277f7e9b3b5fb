// Package shm is a fabric between processes of one host (package fabric): operations and answers travel
// through memory that both processes map.
//
// The package does not open connections. Config.Dial opens a connection on a Unix socket, and the application
// passes each accepted connection, with the number of its peer, to Serve. Client and Server, or the
// application, authenticate a connection by TLS first. After the handshake the initiator passes a segment
// (memfd) over the socket by SCM_RIGHTS. Each pair of initiator and target has one segment. The socket stays
// open: a byte on it (a bell) wakes a sleeping side, and the end of the socket reports the death of the peer
// at once.
//
// A process that relays the authentication of a socket could take the place of one end afterwards. To exclude
// this, both processes must run as the same user, or the authentication must exclude it (Config.Introduced).
//
// # Streams
//
// A connection that is no Unix socket is a stream: the peer is on another host, for example. It carries the
// bytes of provider soft, so the peer may also be of provider soft. The two rings of its link are private
// memory, and two goroutines move bytes between the rings and the connection. A node can have both kinds of
// connections, also to one peer, one after the other. All promises hold across them, because the rights, the
// queues and the incarnation belong to the endpoint.
//
// # Why regions are not mapped
//
// A process cannot take a mapped page away from another process. So a region is the private memory of its
// owner, and only the owner's process changes it. A segment has two rings: one for operations, one for their
// answers. The target executes operations when Poll or Wait reads the rings, or when a bell has woken the
// goroutine of the connection. For each piece that it copies, the target checks the rights of the writer
// under the lock of the region. After Revoke has returned, the target refuses all operations of the writer
// that need the revoked rights (fabric M3). The disadvantage: a target whose process is stopped executes
// nothing, as with provider soft.
//
// # Trust
//
// A segment is as untrusted as a frame: its writer may change anything in it at any time. Each side keeps its
// own cursors in private memory, accepts only possible values of the peer's cursors, and copies bytes before
// it interprets them. A segment must be sealed memory of the stated size, so that no access to it can fail. A
// faulty peer loses its connection. A faulty peer can also send bells without a reason. This costs CPU time,
// as a flood of frames does.
//
// # Ordering and visibility
//
// One connection from an initiator to a target carries all its queues there, so operations of different
// queues are also executed in the order of Post, as long as the connection lives. If a connection fails, all
// its queues are broken. Once a target has admitted a new connection of a peer, it executes no operation of
// an older connection of this peer. An initiator sends no operation before its connection is admitted. So an
// operation that was reported as lost cannot be executed after a reset (fabric Q5).
//
// A producer writes bytes into a ring and then stores the cursor; a consumer loads the cursor and then
// copies. Both are sequentially consistent atomic operations. A write that is larger than the free room is
// executed in pieces, as room becomes free. Pieces end between words (fabric M2). Load and Store take the
// lock of the region.
//
// # Waiting
//
// Wait polls the rings for Config.Spin at most before it sleeps. After polls without a result it polls for a
// shorter time, until an event arrives that a full poll would have found. Before a side sleeps, it sets a
// word in the segment, reads the rings once more, and then waits for the bell. After a side has published
// bytes, it reads this word, and sends a bell if the word is set. While Wait polls, the word is not set, and
// no side sends bells.
//
// Notify replaces Wait by a function that is called by the goroutine that has found an event. With
// Config.Patience, a target sends no bell for the success of a write: an initiator without operations of
// other kinds finds it when it looks for another reason, and after Patience at the latest.
//
// If the application does not call Wait or Poll for a millisecond, a goroutine (guard) reads the rings and
// sets the word. An idle endpoint uses no CPU time except for two reads of the rings per Config.Timeout and
// connection.
package shm
