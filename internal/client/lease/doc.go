// Package lease is the cache of names and attributes of one client for one partition, as a pure core. It owns
// no goroutine, socket or clock: package client drives it in real time, and package sim in virtual time.
//
// The client watches the partition at a replica (ask.Watch), which reports the changes in the order of the
// partition: the stream. The place UpTo is the last one whose changes the cache has. Names are cached as of
// UpTo or later: a name is present with its inode, or absent. If the cache has all names of a directory, all
// others are absent. Attributes of inodes that have a name are cached as of UpTo or later, too.
//
//	L1  A cached name or attribute is used only if the stream lives and has reached all that the client has
//	    seen of the partition, and if no place of the partition is open for the client (ask.Seen). So the
//	    answer is the state at UpTo, which is not older than anything that the client has seen.
//	L2  An answer as of a place is cached only if the stream has not reported a later change of the name or
//	    the attributes. The answer may arrive after the report of that change.
//	L3  An own update at the place after UpTo advances UpTo: the client knows all names and attributes that
//	    it may have changed. The stream reports the update again.
//	L4  After a gap in the stream, in a new history, and if an own update is missing in the stream, the cache
//	    is emptied. It is also emptied when the stream begins or ends to report changes of attributes.
//
// Everything is bounded: the least recently used directories and attributes are evicted first.
package lease
