// Package journal keeps the operations of a client's logs (package delegate) in memory that outlives the
// process of the client: the next process sends the operations that are not ordered yet. It is a pure core:
// it owns no goroutine, file or clock; the memory is the caller's.
//
//	J1  An operation is in the journal before its outcome is given to a program, and before it is sent
//	    (package client appends it under the mutex of the log). So a process that dies at any moment has
//	    answered no operation that its successor does not find, and has sent none that it does not find with
//	    the same number.
//	J2  The successor finds a prefix of the records: a record that was being written is not valid, and
//	    ends the journal. Proof: a record has a checksum of its position and its content, and is written
//	    behind all valid ones.
//	J3  An operation of a log that has ended is never sent again: the end is in the journal before another log
//	    of the session begins, and before a program learns that operations are lost.
//	J4  An operation without an acknowledgement in the journal is sent once more. It has the same number, so
//	    the partition does not execute it twice (W2 of package delegation). The grants of a log stand until
//	    the successor begins the next log. So the journal needs neither the directories nor the grants: the
//	    begin of the log and its operations are enough.
//	J5  The kernel sends a request again that the dead process has not answered. If its operation is in the
//	    journal, the successor gives the recorded outcome (Answers), and does not execute the request again.
//	    For that, operations stay in the journal for a while after their acknowledgement (retained).
//	J6  The memory is bounded: Append refuses an operation that does not fit, and the caller waits for
//	    acknowledgements.
//	J7  A block that is not stored is in the record of its operation. So the successor finds either both or
//	    none, and stores the block before it sends the operation. A block may be stored twice: it is the same.
//
// # Format of the memory
//
//	0   8   magic
//	8   4   format, little endian; as all numbers of the header
//	16  16  first place of the head:  position (8), checksum of it (4)
//	32  16  second place of the head: written in turn; the valid one with the larger position counts
//	64      ring of records
//
// A position counts all bytes that were ever written to the ring; its place is the position modulo the size
// of the ring. A record is the length of its content (4), a checksum of position and content (4), and the
// content: a kind, the log (partition, session, number), and the rest of the kind, in the encoding of package
// varint:
//
//	begun         the log may hold directories; written again when the head passes it
//	operation     its number, the request of the kernel (0: none), the operation, its result
//	with a block  the same, and the block up to the end of the record (format 2)
//	acknowledged  the number up to which all operations of the log are ordered
//	ended         the log is ended: its other operations are lost, or it has none
package journal
