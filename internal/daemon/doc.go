// Package daemon is the processes of a real cluster (DESIGN 7): servers on several hosts, and how mounts and
// operators find and reach them. The embedded cluster of package dev runs the same servers in one process:
// what they share then is in ServerConfig.
//
// # Who knows the cluster
//
// A cluster is described by one topology.Spec. It begins as a File that a person wrote; the first server that
// starts puts it into the registry (etcd, or of servers in one process a file), and from then on that is the
// truth. Servers watch it and keep a copy in their data directory; clients ask any server. So nothing that
// serves files needs etcd: with etcd away servers go on, and start, with what they know; only changes of the
// cluster, and servers that are new or have lost their disk, wait for it.
//
// # What must not happen
//
//	D1  A replica never speaks under a number that has spoken from another disk: who forgot its promises gets a
//	    new number. Each partition's directory names its process; a process is marked in the registry before it
//	    first speaks; a directory that is missing although its process is marked is a lost disk, and the
//	    process is replaced (disks.go). A registry that has an older description than a server knows, or none,
//	    has forgotten marks, too: nothing new starts by it, and no cluster is born while a server of another
//	    one answers.
//	D2  A server's name is run once at a time: by a lock on its directory, and by its lease in the registry.
//	D3  A data directory is of one cluster and one server: others refuse it.
//	D4  A storage node is told of by a member of its region before it starts (block, M3).
//	D5  What a description says is taken only if its version is higher than what the process knows.
//	D6  A replica is replaced only while the others that take part are a majority: one after the other, so that
//	    a partition never loses what it has (majority.go). What is on a disk that was given up is deleted when
//	    the successor takes part, not before.
//	D7  A description from etcd is taken only if a server of the cluster has signed it, or this process knows it
//	    already (signature.go). With D5, etcd can withhold a description, and cannot change one.
package daemon
