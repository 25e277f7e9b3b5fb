// Package disk is the block.Store of one server. It is a log-structured store: blocks are appended to segment
// files, an index (LevelDB, package kv) has the place of each block, and compaction frees the space of
// deleted blocks by moving the live ones.
//
// A put, delete or step of compaction is an update. The updates of concurrent calls form a batch
// (batch.go): one write to the segment, one sync, one commit of the index. A block is live if the index
// names it; bytes of a segment that the index does not name are dead. A bad record or copy is one with a
// wrong checksum.
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
//	S2  Open reads the segments from the frontier on. It cuts off the bytes after the last good record (a torn
//	    tail). After a bad header it searches for the next good record.
//	S3  A power loss with NoSync can shorten or remove a segment. Open finds that by its size, which is less
//	    than the offset of the frontier or than its live bytes. Open drops the index entries that point beyond
//	    its end. Nothing is appended to the segment any more.
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
//	    back. The file of a segment is removed when the index names nothing in it, and this state of the index
//	    is synced. The live record of a block is therefore the last one of its id in the log. A reader that
//	    finds that a segment is gone, or that the bytes are bad, looks in the index again.
//	S8  Compaction leaves a live record with bad bytes in place, counts it (Stats.BadRecords), and keeps its
//	    segment until the block is put again, as repair does, or deleted.
//	S9  A call that finds the index damaged renames it to index.damaged-N (two are kept, and a log line
//	    reports it) and rebuilds it from the segments. Other calls fail meanwhile; none of them reports that a
//	    block is missing. After the rebuild this server lacks its small blocks. Blocks that were deleted and
//	    not yet compacted are back, as orphans. If the newest journal of LevelDB is damaged, its last batches
//	    are lost without notice, as after a power loss: large blocks are indexed again from the frontier on,
//	    small ones are missing here, and deletes are undone.
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
// I/O errors are returned unchanged, and the store neither moves nor rebuilds anything because of them.
// After a failed write to the index, puts and deletes fail until the index could be opened again. Each of
// them tries to open it if 8 MiB of the disk are free. Gets continue. ReserveBytes leaves room for the
// index on a full disk, so that its writes do not fail.
//
// A rebuild of the index reads all segments: minutes for each 100 GiB. Meanwhile this server returns errors
// and the region continues without it. Close interrupts the rebuild, and the next Open continues it.
package disk
