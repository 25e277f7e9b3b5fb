// Package soft is a fabric over stream connections (package fabric): a goroutine of the target executes the
// operations that a connection brings, as a network interface with RDMA would.
//
// The package does not open connections. Config.Dial opens a connection, and the application passes each
// accepted connection, with the number of its peer, to Serve. The application authenticates peers before
// that, for example by TLS.
//
// # Ordering and visibility
//
// One connection from an initiator to a target carries all its queues there, so operations of different
// queues are also executed in the order of Post, as long as the connection lives. If a connection fails, all
// its queues are broken. Before Serve admits a new connection of a peer, it ends the older connection, with
// all its operations. The target admits a connection by a byte, and an initiator sends nothing before this
// byte. So an operation that was reported as lost cannot land after a reset (Q5).
//
// Post executes the operations of a node on itself.
//
// For a write, the goroutine locks the region, checks the rights and copies up to 64 KiB; then it repeats
// these steps. A read is copied as a whole. Revoke takes the same lock (M3). Load and Store take it, too, so
// a piece is visible as a whole (M2).
//
// # Format
//
// Package remote describes operations and answers. An operation of an unknown kind or with a length above
// fabric.MaxRegion ends the connection.
package soft
