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
// log whose beginning is gone. What cannot be told from a torn end is damage to
// the very last batch: there the count of cut bytes is the only trace.
//
// # Bytes
//
// A directory holds the file LOCK, flocked while the log is open, and segments named
// 0000000000000001.wal and on. A segment is the whole log: each checkpoint begins a new one, with the
// checkpoint as its first batch, and once that is durable with its directory entry the older
// ones are deleted. All numbers are little endian, all checksums CRC32C.
//
//	segment = magic "GFSWAL1\n" | salt 8 | number 8 | flags 4 | crc of these 4 | batch...
//	batch   = crc 4 | length of payload 4 | number of the batch in the segment, from 1, 8 | crc of payload 4 | payload
//	payload = (uvarint length | record)...
//
// Flag 1 says that the first batch is a checkpoint; only the first segment of a log does without. The crc
// at the beginning of a batch covers the salt of the segment and the rest of the batch's header. So the
// header of a later batch can be recognised behind damaged bytes, and bytes of
// another segment, or of a log inside a record, are not mistaken for one.
//
// The framing is not goleveldb's journal because that does not say where it stopped, does not tell a torn
// end from a damaged middle, and has no batches.
package wal
