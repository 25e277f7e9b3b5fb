// Package topology describes a cluster: regions, datacenters, servers, partitions and
// who replicates what where. It is pure; the cluster file is parsed here with errors that name
// line and key.
package topology
