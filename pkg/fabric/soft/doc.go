// Package soft is a fabric over stream connections (package fabric): a goroutine of the target executes the
// operations that a connection brings, as a network interface with RDMA would.
//
// The package makes no connections. Config.Dial makes them, and Serve takes those of others, together with
// the name of the peer: the caller authenticates peers, with TLS or otherwise, before Serve.
//
// # Ordering and visibility
//
// One connection from an initiator to a target carries all its queues there, so operations of different
// queues are executed in the order of Post, too, as long as the connection lives. A connection that fails
// breaks all queues on it. Serve ends the older connection of a peer, with everything that arrived on it,
// before it admits a newer connection, by a byte, and an initiator sends nothing before it is admitted: an
// operation that was reported as lost cannot land behind a reset (Q5).
//
// Operations of a node on itself are executed by Post.
//
// For a write, the goroutine holds the lock of the region while it copies up to 64 KiB, and looks at the
// rights each time. A read is copied as a whole.
// Revoke takes the same lock (M3). Load and Store take it, too, so a piece is visible as a whole (M2).
//
// # Format
//
// Package remote describes operations and answers. An operation of an unknown kind or with a length above
// fabric.MaxRegion ends the connection.
package soft
