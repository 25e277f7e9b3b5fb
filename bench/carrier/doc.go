// Package carrier compares carriers of commands of several partitions, in virtual time: whole replicas
// (internal/replica) of partitions in the regions of the thesis, with clients, under three carriers:
//
//   - classes: PrimCast in classes, the product's carrier. Messages with the same destinations have one
//     order.
//   - one-order: PrimCast with one order for all messages, as in the thesis.
//   - direct: package bench/direct. The sender sends each message to all members of all destinations.
//
// It is what `globalfs-lab cross` runs.
//
// # Model
//
// Partition 0 is global: it has a replica in each region. Each region has a partition of its own, of three
// replicas. A frame between regions takes the delay of topology.Delay, a frame within a region and a call of
// a client to a replica in its region take insideDelay. Every frame and call takes up to a fraction jitter
// longer. Links keep the order of their frames. Computing and writing take no time: the figures contain
// distances and waiting, and nothing else. The same seed gives the same figures.
//
// A cut loses what is on its way between the region and the others, and all that is sent until it ends. Then
// the links start anew.
package carrier
