// Package disk is the block.Store of one server: blocks in segment files and in an index (LevelDB, package
// kv).
//
//	DIR/index/         LevelDB: blocks up to 256 bytes, places of the others
//	DIR/%08x.seg       segments: larger blocks, append only, rolled at 64 MiB (package segfile has the format)
//
// The index has one key for each block, "b" and the id. Its value is either
//
//	1, CRC32C of id and data (4 bytes), data
//	2, CRC32C of id and data (4 bytes), varints: segment, offset of the record, length
//
// The key "f" is the frontier, with the varints 2 (the version of this format), segment, offset: all records
// before it were indexed when it was written. For each segment there is the key "s" and its number (4 bytes,
// big endian), and for the blocks in the index itself the key "i", with the varints live bytes, live blocks.
// In version 1 "s" and "i" are missing: Open counts once.
//
// # Guarantees
//
//	S1  Records are appended, made durable, and then indexed in one LevelDB batch together with the new
//	    frontier. Package kv keeps a prefix of its batches, so after a crash all records that the index may
//	    have lost are behind the frontier. Open indexes them again. A put waits for one sync, that of the
//	    segment.
//	S2  Open cuts a torn tail: the bytes behind the last good record behind the frontier. Behind a bad header
//	    it looks for the next good record.
//	S3  If a segment ends before the frontier (only a power loss without sync can cause that), or ends before
//	    its live bytes do, or is gone, Open drops the index entries that point beyond its end. Nothing is
//	    appended to it any more.
//	S4  A record that could not be written in full (no space) is cut off. If that fails too, or a sync or the
//	    index fails, nothing is appended to the segment any more. The index names only records written in
//	    full.
//	S5  A delete is a synced LevelDB batch, and so is the frontier in it: Open does not index a deleted block
//	    again. (Without sync a power loss may undo deletes. The blocks that come back are garbage, and are
//	    collected again.)
//	S6  The live bytes of each segment are in the same LevelDB batch as the entries that change them. The
//	    counts are exact after each crash, and Open counts nothing.
//	S7  Compaction appends a live record again, makes it durable (also without sync), and indexes it only if
//	    the index still names the old one in the same batch: a block that was deleted meanwhile does not come
//	    back. The file of a segment is removed when the index names nothing in it, after a synced LevelDB
//	    batch says so. The live record of a block is therefore the last one of its id in the log. A reader
//	    that finds that a segment is gone, or that the bytes are bad, looks in the index again.
//	S8  Compaction leaves a live record with bad bytes in place, counts it (Stats.BadRecords), and keeps its
//	    segment until the block is put again, as repair does, or deleted.
//	S9  An index that is found damaged when it is opened, read or written is renamed to index.damaged-N (two
//	    are kept, and a log line reports it) and rebuilt from the segments, by the call that found it. Calls
//	    fail meanwhile, and none of them reports that a block is missing. Afterwards small blocks are missing
//	    here. Blocks that were deleted and not yet compacted away are back: good bytes that nothing refers to.
//	    A newest journal that is damaged loses its last batches without notice, as a power loss would: large
//	    blocks come back from behind the frontier, small ones are missing here, deletes are undone.
//
// # Limits
//
// Delete removes the index entry only. The record stays in its segment as dead bytes until compaction
// (Compact, Run) has moved the live records of that segment. A segment is compacted when a share of it is
// dead: Config.CompactShare, half by default, or a sixteenth when the disk is nearly full. The last segment
// waits until a quarter of it is written. LevelDB itself reclaims small blocks.
//
// Put stores the checksum that comes with the block and does not compute it: the server has verified it. A
// block with a wrong one is a bad copy.
//
// Errors of the disk itself are returned unchanged, and the store neither moves nor rebuilds anything because
// of them. After a failed write to the index, puts and deletes fail until the index could be opened again.
// The next of them tries that once 8 MiB of the disk are free. Gets continue. ReserveBytes keeps a full disk
// from causing it.
//
// A rebuild of the index reads all segments: minutes for each 100 GiB. Meanwhile this server returns errors
// and the region continues without it. Close interrupts the rebuild, and the next Open continues it.
package disk
