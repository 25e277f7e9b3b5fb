// Package growth measures a cluster of real processes as the number of files in a partition grows: the
// latency of operations, the start of servers, memory, state transfer, fsck and backup. The aim is a curve
// without a cliff.
//
// The files are made by fill, and not through a mount: all servers stop, fill executes commands on the
// store of one replica of the partition, and the other replicas get copies of this store. The order of the
// partition has no such commands. That is sound because every replica has executed them at the same place,
// after the last entry of the order. All replicas must have executed the same entries before; the run
// compares their digests.
package growth
