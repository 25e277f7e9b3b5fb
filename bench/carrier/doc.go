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
// The model is that of package virtual, without prices: the figures contain only distances and waiting.
package carrier
