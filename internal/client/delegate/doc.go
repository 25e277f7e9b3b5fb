// Package delegate is the log of one client for one partition: the changes in directories that the client
// holds exclusively (package delegation). It is a pure core: package client drives it in real time, and
// package sim in virtual time.
//
// The client has a copy of the directories that it holds, which is a meta.Machine of its own. A directory
// that existed before comes into it with all names, and with the files of which the client then answers. A
// change is executed in the copy, appended to the log, and answered. Queries of covered objects are answered
// from the copy. So a program sees all earlier changes through its mount.
//
//	L1  An update is executed in the copy only if all objects that it touches are covered by grants that the
//	    client has not begun to return (delegation.Execute). An update that is refused is not in the log.
//	L2  The log is sent in order, at most MaxFlights batches at a time. A batch is sent again, as it was, until
//	    all of its operations are acknowledged: operations have numbers, and are executed once and in their
//	    order. A batch that arrives before an earlier one is not executed.
//	L3  A return is an operation of the log. From its append on the client answers nothing from the copy of
//	    this directory. Before it asks a replica about an inode, the caller waits until the newest operation
//	    on this inode is acknowledged (Newest).
//	L4  If the partition stops the log, or the session has ended, all operations that are not acknowledged are
//	    lost. The client reports them. It begins another log, which ends all grants of the session.
//	L5  The log and the copy are bounded (IsFull, IsLarge).
//	L6  The copy of a directory that existed is read after the grant. The client has no other update under way
//	    from before the request to the end of the copy, and answers from it only if it was not asked to return
//	    the directory meanwhile (WasReturned).
//	L7  A write of a block that is not stored is in the copy and in the log, and in no batch, nor is an
//	    operation behind it (Withhold). So no ordered command names a block that was never stored, and the
//	    ordered part stays a prefix. If the block cannot be stored, the write becomes one of nothing: it
//	    succeeds and changes nothing (Void). The client reports the loss, and returns the directory of the
//	    file: its copy has content that the partition will not have. The operations between have the same
//	    outcomes, since none is refused because a file is shorter.
package delegate
