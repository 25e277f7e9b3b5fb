// Package collector deletes the blocks that no file needs any more (docs/design/blocks.md), in
// the background.
//
// There are two kinds. A *dropped* block was part of a file, and is not any more: its partition has it in a
// queue. An *orphan* either never became part of a file, because its write failed, or is the copy of a
// deleted block on a server that was away during the deletion.
//
// # Dropped blocks
//
// After a grace period the collector deletes the blocks in the queue of a partition from the partition's
// stores. Then it reports the deletion to the partition by an ordered command, and the partition forgets the
// blocks. The grace period is for readers: a reader that has learned the extents of a file may still read
// these blocks for that time. A later reader queries the extents again (client.Read).
//
// # Orphans
//
// A sweep lists all blocks of a region's store. For each block it asks the partition for which the block was
// written whether the block is garbage. That partition knows the answer for sure (package meta has the
// proof): it never reports a block as garbage that a file needs, wherever the file is now, or that has a
// write that may still be executed. So a sweep needs no grace period and no clock.
//
// # Regions that were away
//
// A write continues without a region that is away, if a majority of the partition's regions has its blocks. A
// sweep also compares the blocks of the other regions of a partition, and copies the missing ones to them: a
// region is complete again after the next sweep of each other region.
//
// # Guarantees
//
//   - No block that a file needs is ever deleted: G1. It follows from the two answers of the partitions
//     alone. Collectors that run twice, stop anywhere or work with old answers do no harm, since garbage
//     stays garbage.
//   - All garbage is deleted in the end: if a deletion misses a server or a region that is away, the copy
//     there is an orphan, which a later sweep finds.
package collector
