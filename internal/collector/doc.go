// Package collector deletes the blocks that nobody needs any more (DESIGN 6; thesis 3.8 leaves it open), in
// the background.
//
// There are two kinds. A *dropped* block was part of a file, and is not any more: its partition has it in a
// queue. An *orphan* never became part of a file, because the write that it was stored for failed, or it is
// what a server brought back that was away while the block was deleted.
//
// # Dropped blocks
//
// After a grace period the collector deletes what is in the queue of a partition from the partition's stores,
// and then tells the partition, by an ordered command, which forgets them. The grace period is for readers:
// one that has learnt where the content of a file is may still get it from there for so long. A reader that
// is later than that looks again (client.Read).
//
// # Orphans
//
// A sweep lists all blocks of a region's store, and asks of each the partition that it was written for
// whether it is garbage, which that partition knows for sure (package meta has the proof): it never says so
// of a block that a file needs, wherever the file is by now, nor of one whose write may still be executed. So
// a sweep needs no grace period and no clock.
//
// # What a region has missed
//
// A write goes on without a region that is away, if a majority of the partition's regions has its blocks. A
// sweep also asks the other regions of a partition what they have of its blocks, and brings what they miss: a
// region is complete again after the next sweep of each other one.
//
// # What one can rely on
//
//   - No block that a file needs is ever deleted: G1. It follows from the two answers of the partitions
//     alone; collectors that run twice, stop anywhere or work with old answers do no harm, since what is
//     garbage stays garbage.
//   - What is garbage goes in the end: what a deletion misses, because a server or a region is away, is an
//     orphan there, which a later sweep finds.
package collector
