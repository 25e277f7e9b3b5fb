// Package wal is the write-ahead log of one process: batches of records, appended and made
// durable together, replayed in order after a restart.
//
// # Guarantees
//
// A batch is one Append. It is there as a whole or not at all. What Append has acknowledged
// is replayed, in order, for as long as the medium keeps the bytes: with Sync after a power loss,
// with OS after the death of the process. The batch that was under way when the process died may
// be there. Nothing else is ever replayed. With OS, (*Log).Sync makes all batches so far survive a power loss
// too.
//
// A batch with checkpoint set stands for everything before it. The log replays from the last
// such batch on, and a crash at any point of writing one leaves either the old or the new log.
//
// Damage is never passed over. Only the end of a log may be torn, by a crash in the middle of
// an Append: Open cuts that and says how many bytes it was. Bytes that do not make sense but
// are followed by a later batch are a CorruptError with file and offset, and so is a
// log whose beginning is gone, or whose end is and was acknowledged.
//
// # Rot
//
// The end of a log that cannot be read is either torn or rotten (Alagappan et al., FAST 2018). A torn batch
// was under way at a crash, nobody was told of it, and it is cut. A rotten batch was acknowledged, and the
// medium has changed it: a process that forgets it breaks its promises. A checksum cannot tell the two
// apart. So the file MARK has the last batch that was acknowledged: its segment with the salt of that, its
// number, and the identity of the kernel (Options.Boot).
//
//  1. The mark is written after the batch is as durable as was asked for. So what the mark asks for was
//     there once. If it is not there now it is rotten, or was taken away, and Open gives a CorruptError.
//  2. The mark is not synced. After the death of the process it is exact, with Sync and with OS. After a
//     loss of power the disk may have an older one, which the kernel wrote up to half a minute before. It
//     asks for less, never for too much: a torn end is never taken for a rotten one.
//  3. A batch proves that all before it were acknowledged: the log takes a batch only after the one before.
//     So with Sync what the mark may miss after a loss of power is the last batch only. Users of a log can
//     compare Durable with what they have told others.
//  4. With OS batches behind the last Sync are lost with the kernel. The mark has two numbers: of the last
//     batch that was synced, which always counts, and of the last one that was written, which counts as
//     long as the same kernel runs.
//  5. A mark that is missing or damaged asks for nothing. It is in another file, and so on another block of
//     the medium than the batches.
//
// A sync that fails may leave batches that can be read, and that the kernel does not write any more, or may
// take them away. The kernel tells that once. By 4 the next Open misses batches that were taken away. All
// others behind the last one that is known to be on disk it writes again and syncs, before Replay gives
// them to anybody.
//
// # Bytes
//
// A directory holds the file LOCK, flocked while the log is open, the file MARK, and segments named
// 0000000000000001.wal and on. A segment is the whole log: each checkpoint begins a new one, with the
// checkpoint as its first batch, and once that is durable with its directory entry the older
// ones are deleted. All numbers are little endian, all checksums CRC32C.
//
//	segment = magic "GFSWAL1\n" | salt 8 | number 8 | flags 4 | crc of these 4 | batch...
//	batch   = crc 4 | length of payload 4 | number of the batch in the segment, from 1, 8 | crc of payload 4 | payload
//	payload = (uvarint length | record)...
//	MARK    = magic "GFSMARK1" | salt 8 | segment 8 | batch synced 8 | batch written 8 | kernel 8 | crc of these 4
//
// With Options.Ahead a segment may end with zeros, which are no batch. Zeros where the last batch should be, as
// a loss of power may leave them, are not counted by (*Log).Repaired.
//
// Flag 1 says that the first batch is a checkpoint; only the first segment of a log does without. The crc
// at the beginning of a batch covers the salt of the segment and the rest of the batch's header. So the
// header of a later batch can be recognised behind damaged bytes, and bytes of
// another segment, or of a log inside a record, are not mistaken for one.
//
// The framing is not goleveldb's journal because that does not say where it stopped, does not tell a torn
// end from a damaged middle, and has no batches.
package wal
