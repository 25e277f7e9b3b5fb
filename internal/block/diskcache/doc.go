// Package diskcache keeps blocks on the disk of a client, also while the client is not running.
//
// The blocks are in segments (package segfile), without an index and never synced. Open reads the headers of
// all records. Each get verifies the data that it reads, so a block that a crash has torn is fetched again.
// The index in memory takes about 80 bytes for each block.
//
// Segments cost two writes for a block, and eviction removes one file for 64 MiB. A file for each block would
// have to be made, written and removed. Package disk does not fit: it looks for each block before a put,
// keeps its index in LevelDB, and cannot evict.
//
//	K1  A block that the cache returns has the checksum that it had when it was put, or when it came from the
//	    store.
//	K2  The files have at most MaxBytes, also while segments are rewritten.
//	K3  The oldest segment is removed first. Blocks in it that were used since they were written are written
//	    again, up to half a segment. So the blocks that were used last stay, approximately.
//	K4  No failure of the disk fails a get or put: the cache turns itself off for a minute and logs it.
//	K5  A get waits only for reading the disk. Blocks are written in the background. A block for which the
//	    queue has no room is not kept.
package diskcache
