// Package topology describes a cluster.
//
//	Spec        the cluster file, and the changes since (YAML)
//	  | Plan    a pure function: the same Spec gives the same Cluster
//	Cluster     all processes use it and never change it
//	  Region      a site, such as eu-west-1
//	  Server      one host: replicas, and a storage server of its region
//	  Partition   a part of the metadata, with the group of its replicas
//	    Replica     a process of the group, on a server
//
// Partition 0 is global: it has replicas in all regions and holds "/". Each region has one or more local
// partitions, called shards, with all replicas in the region. The first shard holds the region's directory.
//
// A cluster changes by changes of its Spec: servers join and leave (storage.go), replicas are replaced
// (Replace), and partitions are added (added.go). Each change appends to a list in the Spec, so that Plan can
// compute the present Cluster, and numbers of processes and partitions are never used again. Errors of a
// cluster file name the line and the key. The package has no side effects.
package topology
