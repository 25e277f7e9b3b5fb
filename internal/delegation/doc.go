// Package delegation is the part of write delegations that clients and replicas share: which directories a
// client holds exclusively, and the execution of the client's log. It is a deterministic core: it owns no
// goroutine, socket, file or clock.
//
// # Terms
//
// A directory that a client makes with OpDelegate is held by the session of the client from its making on. So
// is each directory that the client makes inside of a held one. A client that works alone in a directory that
// exists asks for it (Ask), and gets it with a copy of its names and files, unless the directory is hot: it
// was recalled a while ago, or several sessions change it (cooling.go).
//
// The grant of a directory covers the directory, with its names and attributes, and the inodes that are not
// directories and have numbers in the spans of the grant. The grant of a directory that existed covers, too,
// the files that lived in it at the grant and had no other name. A span is SpanSize numbers that follow each
// other. The partition gives spans to sessions; a span goes to a grant with the first inode that the client
// makes with one of its numbers. An inode stays covered by the same grant when it gets another name. It is
// covered until the grant ends, not until the end of the grant of the directory that it was moved to.
//
// The client executes its changes of covered objects at once, in a copy of the directories that it holds, and
// answers. It appends the changes to its log, and sends the log in batches. A batch is an ordered update.
//
// # States of a directory at its partition
//
//	free       all updates take effect
//	held       only operations of batches of the session take effect
//	recalled   as held; the client is asked to return the directory
//
//	event                                        effect
//	OpDelegate makes the directory               held
//	a batch makes the directory in a held one    held
//	OpDelegate asks for a free one that exists   held, if it is not hot, and no undecided command is about it
//	an update that is not of a batch touches     the update waits; held becomes recalled, unless the directory
//	                                             is protected from the client (protection.go)
//	a batch returns the directory                free
//	a batch removes the directory                free
//	the session ends                             free, all of the session
//	the client begins another log                free, all of the session
//	a replica has waited too long (REVOKE)       free, if it is still the grant that the replica has waited for
//
// Queries ignore grants: other clients read the state in the order, which is a prefix of the client's log.
//
// # Fences
//
// Safety needs no clock. A log has a number, which grows with each log that a session begins, and operations
// are numbered in it without gaps. The partition executes an operation if its log is the newest of the
// session, if it is the next of the log, and if all objects that it touches are covered by grants that the
// session has at this place of the order. The number of a directory names its grant: of those that a log has
// got for a directory, one after the other, the client knows the order. It asks again only after it has
// returned the directory by its log, and requests are executed in the order of their numbers. So no operation
// of a grant, and no request, is executed late under another grant.
//
// REVOKE is no part of the log, and may be ordered late. It names the grant by a number: the place of the
// order at which the partition has given an existing directory. So it has no effect on a later grant
// (Revocation).
//
// # Invariants
//
//	W1  A directory has one grant at most, and a span belongs to one grant at most. No update takes effect on
//	    a covered object, except operations of batches of the session that holds it. Proof: all updates of one
//	    partition pass Recall at their place of the order (package replica), and votes of commands of several
//	    partitions too (package cross). A vote before the grant holds no covered object, because the directory
//	    and the inodes in its spans did not exist, or because Answer has found none (meta.Adoptable).
//	W2  The operations of a log are executed in their order, each at most once, without gaps. Proof: Run
//	    executes only the next operation, and stores the number of the next one in the same batch.
//	W3  No operation on an object takes effect after the end of the grant that covers it. Proof: Execute looks
//	    up the grants at its place of the order. When a directory is granted again to the same log, the log
//	    has no operation of the grant before that is not executed, by the section on fences.
//	W4  The outcome of an operation is the one that the client has answered. Proof: client and replica run
//	    Execute. Its inputs are the command with its time, the number of a new inode, the grants, and the
//	    objects that it touches. The client has the objects since they were made, or has read them from a
//	    replica after the grant (OpCarry), and by W1 and W2 the same operations have changed them in the same
//	    order since. If another outcome is met, for example after a loss of
//	    entries, the log stops for good: Run executes nothing of it any more, and the client reports an error.
//	W6  The executed part of a log is a prefix of it (by W2).
//	W8  An update that has waited for a recall sees all that the client answered before the end of the grant,
//	    if the client has returned it: the return is an operation of the log, behind all others.
//	W10 A number is given to one inode. Proof: a span belongs to one session and then to one grant, and the
//	    numbers used in a span grow.
//
// # Stored keys
//
//	0x4a directory   session, whether it is recalled, spans with the last used number of each,
//	               the number of the grant, if it has one
//	0x4b session     number of the log, next operation, whether it has stopped, spans without a grant, the
//	                 newest request for an existing directory
//	0x4c directory   of one that existed: its files
//	0x4d directory   of one that is or was hot: until when, the pause, the last session that has changed it
//	0x4e directory   of one that was recalled for a bound client: when, and until when it is protected
package delegation
