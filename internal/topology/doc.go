// Package topology describes a cluster: regions, datacenters, servers, partitions and the placement of their
// replicas. It is pure; it parses the cluster file, with errors that name line and key.
package topology
