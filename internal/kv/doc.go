// Package kv is the store of one replica: ordered keys, written in batches. It satisfies
// the interfaces that internal/meta and internal/replica declare, and is the only importer of goleveldb.
//
// Writes are pending, and visible to reads, until Commit makes one LevelDB batch of them. The multicast log
// is the durable truth, so LevelDB's own sync is off: a commit survives the end of the process, and a loss of
// power once a Commit with sync followed.
//
// Invariants:
//
//	K1  the store after a crash is the store as one Commit left it: never a part of a
//	    batch, never a batch without those before it (journal.go: LevelDB alone does not
//	    promise that after a loss of power).
//	K2  the first error sticks: after it nothing is written, and Commit and Err give it.
//	    Callers must not act on earlier results of Get and Scan since the last Commit.
//	K3  a store that keeps a digest (KeepDigest) stores it with each batch: the stored digest is that of the
//	    stored keys, unless these were changed behind the store's back.
//
// Shared is a store on disk without pending writes, for many goroutines: the index of a block store.
// ErrDamaged distinguishes damaged files from a failing disk.
//
// Keys may be any bytes but none; a value may be empty, which differs from absent. A Store has one owner;
// different stores are independent.
package kv
