// Package shm is a fabric between processes of one host (package fabric): operations and answers travel
// through memory that both processes map.
//
// The package makes no connections. Config.Dial makes them, on a Unix socket, and Serve takes those of
// others, together with the name of the peer. Client and Server authenticate a connection by TLS first. After
// the handshake the initiator passes a segment (memfd) over the socket by SCM_RIGHTS. There is one segment
// for each initiator and target, and both processes must run as one user. The socket stays open: a byte on it
// is a bell for a side that sleeps, and its end tells the death of the peer at once.
//
// # Why regions are not mapped
//
// A process cannot take a mapped page away from another process. So a region is the private memory of its
// owner, and only the owner's process changes it. A segment has two rings: operations, and their answers. The
// target executes operations when Poll or Wait looks into the rings, or when a bell has woken the goroutine
// of the connection. It looks at the rights of the writer under the lock of the region, for each piece that
// it copies. After Revoke has returned, whatever the writer does to its segment is refused (fabric M3). The
// price: a target whose process is stopped executes nothing, as with provider soft.
//
// # Trust
//
// A segment is as untrusted as a frame: its writer may change anything in it at any time. Each side keeps its
// own cursors in private memory, accepts of the peer's cursors only possible values, and copies bytes before
// it looks at them. A segment must be sealed memory of the stated size, so that no access to it can fail. A
// broken peer loses its connection. It can also ring the bell without a reason, which costs CPU time, as any
// sender of frames can.
//
// # Ordering and visibility
//
// One connection from an initiator to a target carries all its queues there, so operations of different
// queues are executed in the order of Post, too, as long as the connection lives. A connection that fails
// breaks all queues on it. A target executes nothing of an older connection once it has admitted a newer one
// of the same peer, and an initiator posts nothing before it is admitted: an operation that was reported as
// lost cannot land behind a reset (fabric Q5).
//
// A producer writes bytes into a ring and then stores the cursor; a consumer loads the cursor and then
// copies. Both are sequentially consistent atomic operations. A write that is larger than the free room is
// executed in pieces, as room becomes free. Pieces end between words (fabric M2). Load and Store take the
// lock of the region.
//
// # Waiting
//
// Wait looks into the rings for Config.Spin at most before it sleeps, and for a shorter time after vain
// attempts, until a longer look would have been enough. A side that sleeps sets a word in the segment, looks
// once more, and waits for the bell; a side that publishes looks at the word afterwards. While Wait spins,
// nobody rings. If its caller stays away, a goroutine looks into the rings after a millisecond, and asks for
// the bell again. An idle endpoint uses no CPU time except for two looks per Config.Timeout and connection.
package shm
