// Package session keeps the sessions of one partition's clients (thesis section 3.4.1): which sessions are
// open, which updates were executed with which answer, and which inodes and blocks a session may still use.
// Sessions are replicated state: every method but those on leases is called at a place of the partition's own
// order.
//
// # Exactly once
//
// An update is named by its session and its number in it. Its answer is kept until the client reports that it
// has received the answer. A repeated update gets the kept answer. An update below the reported number is
// refused. The number of an ended session is remembered for a week, and never opened again: a delayed copy of
// an update finds no session.
//
// # Leases
//
// Leases do not compare clocks of two machines. A replica that has applied no renewal for the length of the
// lease, by its own clock, proposes the end of the session. The proposal has no effect if a renewal was
// ordered meanwhile.
//
// # Open files
//
// A client reports in each renewal the inodes that it holds open, and how many entries of this partition's
// order it had seen by then. An inode that lost its last name at place n is unused once each session has
// renewed with at least n seen and without the inode: a client that opens the inode later must first find it,
// and a client that has seen n does not find it.
//
// # Stored keys
//
//	0x41 session          renewals, place seen at the last one, horizon of blocks, inodes held; the name of the client
//	0x42 session number   the highest number reported as received, then the answer
//	0x45 time session     a session that has ended
//
// # Invariants
//
//	S1  an update (session, number) is recorded at most once.
//	S2  the highest reported number of a session never decreases, and is stored with an answer that stays.
//	S3  a session that has ended is not opened again.
package session
