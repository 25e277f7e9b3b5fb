// Package order runs the two orders of a replica over one link to each peer and one write-ahead log: the own
// order of the replica's partition, and the order between partitions. An order is a protocol core that the
// caller chooses; no other package of the metadata path names a protocol.
//
// # Two orders
//
// State changes only at places of the own order. A message of several partitions in the own orders themselves
// would make every later entry of all its destinations wait for the clocks of far, or cut off, groups. The
// order between partitions keeps that waiting away from the work of one partition. It runs in classes:
// messages with the same destinations have one order, and other messages are independent of them.
//
// # Durability
//
// A step with any record of the order between partitions is synced (multicast.Output.Sync): an
// acknowledgement, a clock or a promise in that order is a statement to other partitions. A step with
// records of the own order alone is synced only if a proposal in it asks for that (Entry.Durable), or the
// epoch changes. Both orders write one log, so that a sync covers all earlier records of both.
//
// A core may let frames leave before its records (multicast.Output.Early). The servers let the own order do
// so, if their log syncs each step. All statements to other partitions wait for the records.
//
// # One-sided memory
//
// A Core of the own order may be OneSided (package onesided): peers write into its memory. Completions of
// operations come with the input of a turn. Changes of rights and operations leave with its output, behind
// the same gate as frames.
//
// # Formats
//
// A frame has sections: of the own order, of the order between partitions, and messages between replicas
// (Send). A record of the write-ahead log starts with the order that it belongs to. A checkpoint of one order
// is written as a checkpoint of both, because the log is cut before it. An entry starts with a version.
package order
