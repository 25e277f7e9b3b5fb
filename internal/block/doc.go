// Package block stores the immutable data blocks of files (thesis 3.5.4). It holds
// the Store interface, the engine that keeps one server's blocks on its disk
// (Segments), the server's logic (Node: any server is a proxy for its whole
// region), and the stores of clients, which wrap each other: Remote (a region),
// Nearest (several regions), DiskCached and Cached. Package ring says which servers own a block.
//
// A block has an id that names the same 1 to 1 MiB bytes for ever. That is what makes
// the rest simple: copies need no coordination, any good copy is the right one, a put
// may be repeated, and a cache needs no invalidation.
//
// # Guarantees
//
//	B1  Get gives the bytes that were put, or an error: never other bytes. Every
//	    block has a CRC32C over its id and its bytes, made by the first server that
//	    sees it or before, verified on each read from disk and each time that the block
//	    crosses a wire.
//	B2  Put of a block that is there changes nothing, unless the copy is bad: then it
//	    replaces it. Put of other bytes under the same id gives ErrConflict.
//	B3  A put that was acknowledged by a region has r copies on distinct servers, each as
//	    durable as its server's Config says: on the owners, which are in distinct
//	    datacenters as far as there are any, or, for owners that could not take it, on
//	    the servers that follow on the ring.
//	B4  A put that failed may have left copies, on one server or on several: they are
//	    good copies, or nothing. A failed put may be repeated anywhere.
//	B5  ErrNotFound from a region means that every server of it was asked. If one
//	    could not be asked, the answer is ErrUnavailable.
//	B6  Delete of a block removes all copies on the servers that could be reached, and
//	    is an error if one could not. A copy on its way from one server to another meanwhile, and
//	    those of a server that was away, come back: they are garbage, and deleted again.
//	B7  As long as a block has lost fewer than r copies since it had r good ones on its
//	    owners, it has a good one, whatever servers crash, come back, join or leave meanwhile.
//	    When all servers answer again it has r good copies on its owners, and no others, after some
//	    repair rounds and one scrub.
//
// # How a region stays whole
//
// Each server knows all Members (ring order and all: one hop), which have versions, and pings
// those that are silent. One that has not answered for DownAfter is down: the next servers of the
// ring's order, its keepers meanwhile, take over. Repair rounds do the rest:
//
//   - Pull: for each other server, a server compares digests of what it has of the blocks that
//     both should keep with what the other one has, range by range, and fetches what it lacks.
//   - Hand back: what others keep, it sends to those of them that lack it, and drops its own copy when
//     all owners, none skipped, have shown that they have good copies. As long as one is down, stand-ins
//     keep theirs. A server that is leaving owns nothing: it hands back all.
//   - Scrub: it reads all that it has, slowly. A get, or the scrub, that meets a bad copy replaces it; a get
//     that meets an owner without its copy has it put there.
//
// So each holder of a block either is a keeper, from whom the others pull it, or sends it to the keepers: one good copy
// in reach is enough to have r of them again. A get asks the next server when one takes longer than
// it usually does; a put asks a stand-in too when an owner has taken an eighth of CallTimeout.
//
// # Why a change of members loses nothing
//
//	M1  Members are totally ordered, and those of a server only get newer, through restarts too: they
//	    are saved before they are used.
//	M2  A server drops a copy only by its newest members, by which it does not own the block; they do
//	    not change while it does. A server that owns a block by its newest members never drops it.
//	M3  Newer members are told to a server that is a member already, and a server is taken out only when it
//	    is drained and all servers know that it leaves.
//	M4  Before a copy is dropped by members m, each owner by m has said, while it knew m or newer, that it
//	    has a good copy: it has read it. Servers that know others than the asker say nothing.
//
// Claim: when a copy is dropped, r other servers had good copies, and none of them has dropped its own. Of all drops of the
// block up to now take the one by the newest members m, and its owners o by m. By M4 each had a good copy while it knew m or
// newer. By M2 it did not drop it while it knew m; after that it could drop it only by newer members than m, and there
// was no such drop. Is the one that drops now among them? By M4 it had a copy while it knew m or newer, and now it drops by
// members that are m or older: those are m (M1), by which it owns the block: it does not drop it (M2). So faults
// alone can take those r copies away, which is B7; who drops by v what relies on P, and P who drops by v+1 what relies on him,
// cannot both be: he would have to know v+1 to be asked, and does not drop by v any more.
//
// Claim (B5): a block that exists is not said to be missing though it moves while it is looked for. ErrNotFound needs three
// sweeps in a row in which all servers knew the same m and had no copy. During the last two all of them know m. If nobody drops a
// copy between the first and the end of the second, who had it at the end of the first would have said so in the second. If somebody
// does, all owners by m have it from then on (M4, M2), and would say so in the third. Nor is it on a server that m does not
// name: one that places blocks by newer members learnt them from a member (M3), who is asked.
//
// What clients put in front keeps these: Nearest asks other regions before it says that a block is not there or bad, and puts
// good copies where it has met none; Cached and DiskCached give blocks that were deleted until they push them out. A hedged get of
// Remote is one get to its caller. Package objects is another Store of a region, with its own account of B1 to B6.
//
// # What one server has on disk
//
//	DIR/index/         LevelDB (package kv): blocks up to 256 bytes, places of the others
//	DIR/%08x.seg       segments: larger blocks, append only, rolled at 64 MiB
//
// A segment is a sequence of records, numbers little endian, without padding:
//
//	 0   4  "GBK1"
//	 4  16  id
//	20   4  length of the data
//	24   4  CRC32C of id and data
//	28   4  CRC32C of the 28 bytes before
//	32      data
//
// The index has one key for each block, "b" and the id, whose value is either
//
//	1, CRC32C of id and data (4 bytes), data
//	2, CRC32C of id and data (4 bytes), varints: segment, offset of the record, length
//
// the key "f", the frontier: varints 2 (the version of this format), segment, offset: all
// records before it were indexed when it was written; for each segment the key "s" and its
// number (4 bytes, big endian), and for the blocks in the index itself the key "i", with varints: live
// bytes, live blocks. In version 1 "s" and "i" are missing: Open counts once.
//
// # What holds on disk
//
//	S1  Records are appended, made durable, and then indexed in one LevelDB batch
//	    together with the new frontier. Package kv keeps a prefix of its batches, so
//	    after a crash all records that the index may have lost are behind the
//	    frontier. Open indexes them again: a put waits for one sync, that of the segment.
//	S2  Open cuts a torn tail: the bytes behind the last good record behind the frontier.
//	    Behind a bad header it looks for the next good record.
//	S3  If a segment ends before the frontier (only power loss without sync can do that),
//	    or before its live bytes do, or is gone, Open drops the index entries that point beyond
//	    its end, and nothing is appended to it any more.
//	S4  A record that could not be written in full (no space) is cut off. If that
//	    fails too, or a sync or the index fails, nothing is appended to the segment any
//	    more. The index names only records written in full.
//	S5  A delete is a synced LevelDB batch, and so is the frontier in it: a deleted
//	    block is not indexed again by Open. (Without sync power loss may undo
//	    deletes; what comes back is garbage, collected again.)
//	S6  What is live of each segment is in the same LevelDB batch as the entries that
//	    change it: the counts are exact after each crash, and Open counts nothing.
//	S7  Compaction appends a live record again, makes it durable (also without sync),
//	    and indexes it, only if the index still names the old one in the same batch: a block that was
//	    deleted meanwhile does not come back. The file of a segment goes when the
//	    index names nothing in it, after a synced LevelDB batch says so. The live record of a
//	    block therefore is the last one of its id in the log. A reader that finds
//	    a segment gone, or bad bytes, looks in the index again.
//	S8  Compaction leaves a live record with bad bytes where it is, counts it (Stats.BadRecords),
//	    and keeps its segment until the block is put again, as repair does, or deleted.
//	S9  An index that is damaged, when it is opened or at any read or write of it, is
//	    renamed to index.damaged-N (two are kept, a log line says so) and made anew from
//	    the segments, by the call that found it. Calls meanwhile fail; none pretends that a block
//	    is missing. Small blocks are then missing here; blocks that were deleted, and not yet
//	    compacted away, are back, as garbage: good bytes of blocks that nothing
//	    refers to. A newest journal that is damaged loses its last batches without
//	    notice, as a power loss would: large blocks come back from behind the
//	    frontier, small ones are missing here, deletes are undone.
//
// # What you must not assume
//
// Delete removes the index entry only. The record stays in its segment as dead bytes until
// compaction (Compact, Run) has moved the live records: of segments that are dead by
// Config.CompactShare, half by default, or by a sixteenth when the disk is nearly full. The last
// segment waits until a quarter of it is written. Small blocks are reclaimed by LevelDB itself.
//
// A block with bad copies only stays as it is, and is logged by each scrub: it can be restored by a put, from another
// region or a backup. All servers must be given the same number of copies. A region that has fewer
// servers than that keeps one on each.
//
// Errors of the disk itself are given to the caller as they are, and nothing is moved or made
// anew for them. After a failed write to the index, puts and deletes fail until it could be opened
// again, which the next of them tries once 8 MiB of the disk are free; gets go on.
// ReserveBytes keeps a full disk from causing it.
//
// Making the index anew reads all segments: minutes for each 100 GiB, in which this server
// answers errors and the region goes on without it. Close interrupts it; the next Open goes on.
package block
