// Package registry holds the shared state of the servers of a cluster: the cluster's description, the live
// servers, and facts that stay. It has two implementations. Etcd is for servers on several
// hosts; this package is the only importer of etcd's client. Local is for servers in one process. One test
// suite runs on both. Nothing on the data path needs a registry: while it is unavailable, servers continue,
// and only the start of servers, changes and queries of the cluster must wait.
//
// # Keys in etcd
//
// All keys of a cluster begin with /globalfs/CLUSTER/. Other clusters, and other users of the same etcd, are
// not affected.
//
//	spec           the description, opaque bytes of at most 1 MiB
//	live/NAME      a live server: a line with its instance, then opaque bytes of at most 16 KiB; bound to a lease
//	numbers/NAME   a text that is replaced: the progress of a server, at most 64 KiB
//	started/NAME   a fact that stays, with the time at which it was recorded
//
// # Guarantees
//
//	R1  Of many processes that bootstrap a cluster at once, exactly one creates its description; the others
//	    get the existing one. Repeating it is safe.
//	R2  Only a caller that has seen the present description can replace it (Swap); its versions grow.
//	R3  Watch shows the present description and then newer ones, never an older one after a newer one. It may
//	    leave out a description that was replaced soon. It continues over loss of etcd, changes of its leader,
//	    and compaction. A description is shown at once, and half a minute late if a connection has died
//	    silently.
//	R4  Only one of two instances has a name at a time: the other gets ErrTaken. An announcer loses its name
//	    only if etcd receives nothing from it for Config.Lease, and gets the name back unless another instance
//	    was faster. The loss is logged: it does not stop a server.
//	R5  Each operation ends within Config.Timeout. If it fails with ErrUnavailable it may still have happened:
//	    all but Swap may be repeated, and after a Swap Load shows the outcome. If one of several members of
//	    etcd hangs, the operations that are sent to it fail, until its connection is closed after 13 s.
//
// A lease is no lock: after its lease has ended, a server may still run because its process was paused or
// could not reach etcd. Events that must never happen twice are prevented by the protocols themselves
// (epochs, incarnations), not by R4. R4 protects against mistakes: the same server started on two hosts, or
// with a copy of another one's data directory.
//
// Local gives the same guarantees. Its description and its facts are in one file, which is replaced as a
// whole: acknowledged changes survive a loss of power. The set of live servers is in memory: it ends with the
// process, and so do the servers.
//
// If etcd itself loses acknowledged changes (restored from a backup), versions may go back: Watch then logs
// this and waits for newer versions; restart the processes.
package registry
