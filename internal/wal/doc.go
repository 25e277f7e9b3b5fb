// Package wal is the write-ahead log of one process: batches of records, appended and made durable together,
// replayed in order after a restart.
//
// # Guarantees
//
// A batch is one Append. It is in the log as a whole or not at all. Acknowledged batches are replayed, in
// order, as long as the medium keeps the bytes: with Sync after a power loss, with OS after the death of the
// process. The batch that was under way when the process died may be there. Nothing else is ever replayed.
// With OS, (*Log).Sync makes all batches so far survive a power loss too.
//
// A batch with checkpoint set replaces everything before it. The log replays from the last such batch on, and
// a crash at any point of writing one leaves either the old or the new log.
//
// Damage is never passed over. Only the end of a log may be torn, by a crash in the middle of an Append: Open
// cuts it and counts its bytes. Malformed bytes in front of a later batch are a CorruptError with file and
// offset, and so is a missing beginning, or a missing end that was acknowledged.
//
// # Rot
//
// The end of a log that cannot be read is either torn or rotten (Alagappan et al., FAST 2018). A torn batch
// was under way at a crash and not acknowledged, and it is cut. A rotten batch was acknowledged, and the
// medium has changed it: a process that forgets it breaks its promises. A checksum cannot distinguish the
// two. So the file MARK names the last acknowledged batch: its segment with the salt of the segment, its
// number, and the identity of the kernel (Options.Boot).
//
//  1. The mark is written after the batch is durable as configured. So the batches that the mark demands were
//     there once. If one is missing now it is rotten or was removed, and Open gives a CorruptError.
//  2. The mark is not synced. After the death of the process it is exact, with Sync and with OS. After a
//     loss of power the disk may have an older one, which the kernel wrote up to half a minute before. It
//     demands less, never too much: a torn end is never taken for a rotten one.
//  3. A batch proves that all before it were acknowledged: the log takes a batch only after the one before.
//     So with Sync the mark misses at most the last batch after a loss of power. Users of a log can
//     compare Durable with the positions that they have reported to others.
//  4. With OS unsynced batches are lost with the kernel. The mark has two numbers: of the last batch that was
//     synced, which always counts, and of the last one that was written, which counts as long as the same
//     kernel runs.
//  5. A missing or damaged mark demands nothing. It is in another file, and so on another block of the medium
//     than the batches.
//
// A failed sync may leave batches that are readable but never written by the kernel again, or may remove
// them. The kernel reports that once. By 4 the next Open notices removed batches. It writes and syncs all
// other batches behind the last one known to be on disk again, before Replay gives them.
//
// # Bytes
//
// A directory holds the file LOCK, flocked while the log is open, the file MARK, and segments named
// 0000000000000001.wal and on. A segment is the whole log: each checkpoint begins a new one, with the
// checkpoint as its first batch, and once that is durable with its directory entry the older ones are
// deleted. All numbers are little endian, all checksums CRC32C.
//
//	segment = magic "GFSWAL1\n" | salt 8 | number 8 | flags 4 | crc of these 4 | batch...
//	batch   = crc 4 | length of payload 4 | number of the batch in the segment, from 1, 8 | crc of payload 4 | payload
//	payload = (uvarint length | record)...
//	MARK    = magic "GFSMARK1" | salt 8 | segment 8 | batch synced 8 | batch written 8 | kernel 8 | crc of these 4
//
// With Options.Ahead a segment may end with zeros, which are no batch. Zeros in the place of the last batch,
// as a loss of power may leave them, are not counted by (*Log).Repaired.
//
// Flag 1 means that the first batch is a checkpoint; only the first segment of a log may lack it. The crc at
// the beginning of a batch covers the salt of the segment and the rest of the batch's header. So the header
// of a later batch can be recognised behind damaged bytes, and bytes of another segment, or of a log inside a
// record, are not mistaken for one.
//
// The framing is not goleveldb's journal because that does not report its end, does not distinguish a torn
// end from a damaged middle, and has no batches.
package wal
