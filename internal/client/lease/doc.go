// Package lease is the cache of names and attributes of one client for one partition, as a pure core. It owns
// no goroutine, socket or clock: package client drives it in real time, and package sim in virtual time.
//
// The client watches the partition at a replica (ask.Watch), which reports the changes in the order of the
// partition. The stream has reached the place UpTo. Names are cached as of UpTo or later: present with their
// inode, absent, or, if the client has all names of the directory, absent because they are not among these.
// Attributes are cached as of UpTo or later, too, of inodes that have a name.
//
//	L1  A cached name or attribute is used only if the stream lives and has reached all that the client has
//	    seen of the partition, and if no place of the partition is open for the client (ask.Seen). So the
//	    answer is the state at UpTo, which is not older than anything that the client has seen.
//	L2  An answer as of a place is cached only if the stream has not reported a later change of the name or
//	    the attributes before: answers and the stream arrive in any order.
//	L3  An own update advances UpTo if it comes directly after it: the client knows all names and attributes
//	    that it may have changed. The stream reports the update again.
//	L4  After a gap in the stream, in a new history, and if an own update is missing in the stream, the cache
//	    is emptied. It is also emptied when the stream begins or ends to report changes of attributes.
//
// Everything is bounded: the least recently used directories and attributes are evicted first.
package lease
