// Package daemon implements the processes of a real cluster (docs/design/membership.md): servers on several
// hosts, and the access of mounts and operators to them. The embedded cluster of package dev runs the same
// servers in one process; ServerConfig has the parts that they share there.
//
// # Description of the cluster
//
// One topology.Spec describes a cluster. It begins as a File that a person wrote. The first server that
// starts puts it into the registry: etcd, or a file for servers in one process. From then on the registry is
// authoritative. Servers watch it and keep a copy in their data directory; clients ask any server. So serving
// files never needs etcd: without etcd, servers continue, and start, with their copy. Only changes of the
// cluster, new servers, and servers that have lost their disk wait for etcd.
//
// # Invariants
//
//	D1  A replica never uses a process number that has sent messages from another disk: a replica that has
//	    lost its promises gets a new number. The directory of each partition names its process. A process is
//	    marked in the registry before its first message. A missing directory of a marked process is a lost
//	    disk, and the process is replaced (disks.go). A registry without a description, or with an older one
//	    than a server knows, has lost marks, too: then nothing new starts, and no cluster is created while a
//	    server of another one answers. When an operator has put the description back, the servers that run set
//	    the marks again (marks.go).
//	D2  Only one process at a time runs a server's name. The lock on its directory and its lease in the
//	    registry ensure this.
//	D3  A data directory belongs to one cluster and one server: others refuse it.
//	D4  A member of the region learns of a new storage server before the new server starts (block, M3).
//	D5  A process adopts a description only if its version is higher than that of the known one.
//	D6  A replica is replaced only while the others that take part are a majority. Replacements are made one
//	    after the other, so that a partition never loses its state (majority.go). The files of a replaced
//	    replica are deleted only after the successor takes part.
//	D7  A description from etcd is adopted only if a server of the cluster has signed it, or this process
//	    knows it already (signature.go). With D5, etcd can withhold a description, and cannot change one.
//	D8  A description with the next step of a new partition is made only after all servers have applied the
//	    present one (grow.go). So all replicas know the groups of all partitions that a message can name.
package daemon
