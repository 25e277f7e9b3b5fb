// Package registry holds what the servers of a cluster share: the cluster's description, which servers are
// live, and facts that stay (DESIGN section 7). There are two kinds of it. Etcd is for servers on several
// hosts; this package is the only importer of etcd's client. Local is for servers in one process. One test
// suite runs on both. Nothing on the data path needs a registry: while it is away, servers go on, and only
// starting, changing and asking for the cluster has to wait.
//
// # Keys in etcd
//
// All keys of a cluster begin with /globalfs/CLUSTER/. Other clusters, and whoever else uses the same etcd,
// are not touched.
//
//	spec           the description, opaque bytes of at most 1 MiB
//	live/NAME      a server that is live: a line with its instance, then opaque bytes of at most 16 KiB; bound to a lease
//	numbers/NAME   a text that is replaced: how far a server was, at most 64 KiB
//	started/NAME   a fact that stays, with the time at which it was noted
//
// # What it guarantees
//
//	R1  Of many processes that bootstrap a cluster at once, exactly one creates its description; the others get
//	    what is there. Running it again is safe.
//	R2  A description is replaced only by who has seen the present one (Swap); its versions grow.
//	R3  Watch shows the present description and then newer ones, never an older one after a newer one. It may
//	    leave out one that was replaced soon. It goes on over loss of etcd, changes of its leader, and
//	    compaction. A description is shown at once, and half a minute late if a connection has died silently.
//	R4  Of two instances only one has a name at a time: the other is told (ErrTaken). Whoever announces a name
//	    loses it only if etcd does not hear of it for Config.Lease, and gets it back unless another instance
//	    was faster. Losing it is a line in the log: it does not stop a server.
//	R5  Each operation ends within Config.Timeout. If it fails with ErrUnavailable it may still have happened:
//	    all but Swap may be run again, and after a Swap Load tells. If one of several members of etcd hangs,
//	    those operations that happen to be sent to it fail, until its connection is given up after 13 s.
//
// A lease is no lock: a server whose process was paused, or that etcd cannot hear, still runs after its lease
// has ended. What must never happen twice has to be kept from that by the protocols themselves (epochs,
// incarnations), not by R4, which guards against mistakes: the same server started on two hosts, or with a
// copy of another one's data directory.
//
// Local gives the same guarantees. Its description and its facts are in one file, which is replaced as a
// whole: what was acknowledged survives a loss of power. Who is live is in memory: it ends with the process,
// as the servers do.
//
// If etcd itself loses what it has acknowledged (restored from a backup), versions may go back: Watch then
// says so in the log and waits for newer ones; restart the processes.
package registry
