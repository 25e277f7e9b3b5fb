// Package carrier compares carriers of commands of several partitions, in virtual time: whole replicas
// (internal/replica) of partitions in the regions of the thesis, with clients, under three carriers:
//
//   - classes: PrimCast in classes, the product's carrier. Messages with the same destinations have one
//     order.
//   - one-order: PrimCast with one order for all messages, as in the thesis.
//   - direct: package bench/direct. The sender sends each message to all members of all destinations.
//
// `globalfs-lab cross` runs this package.
//
// # Model
//
// Partition 0 is global: it has a replica in each region. Each region has a partition of its own, of three
// replicas. A frame between regions takes the delay of topology.Delay; a frame within a region, and a call of
// a client to a replica in its region, take insideDelay. Every frame and call takes longer by up to the
// fraction jitter. Links keep the order of their frames. Computing and writing take no time: the figures
// contain only distances and waiting. The same seed gives the same figures.
//
// A cut loses the frames on their way between the region and the others, and all frames that are sent until
// the cut ends. Then the links start anew.
package carrier
