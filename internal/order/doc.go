// Package order runs two orders for a replica: the own order, which contains the entries of the replica's
// partition, and the order between partitions, which contains the commands of several partitions. Each order
// is a protocol core that the caller chooses, for example primcast. Both orders share one link to each peer
// and one write-ahead log. No other package of the metadata path names a protocol.
//
// # Two orders
//
// The state of a partition changes only at positions of its own order. If a message of several partitions
// were multicast in the own orders themselves, every later entry of each destination would wait for the
// clocks of distant or unreachable groups. With a separate order between partitions, only commands of several
// partitions wait for other groups. That order runs in classes: messages with the same destinations have one
// order, and messages of different classes are independent.
//
// # Durability
//
// A step that records anything in the order between partitions is synced (multicast.Output.Sync), because an
// acknowledgement, a clock or a promise in that order is a statement to other partitions. A step that records
// only in the own order is synced if it has a proposal that demands it (Entry.Durable), or if the epoch
// changes. Both orders write one log, so a sync covers all earlier records of both.
//
// A core may send some frames before its records are durable (multicast.Output.Early). The servers permit
// this for the own order if their log syncs each step. Statements to other partitions always wait for the
// records.
//
// # One-sided memory
//
// The core of the own order may be OneSided (package onesided): peers write into its memory. Completions of
// its operations come with the input of a turn. Its changes of rights and its operations wait for the records
// of the turn, as frames do.
//
// # Formats
//
// A frame consists of sections: packets of the own order, packets of the order between partitions, and
// messages between replicas (Send). The first byte of a log record is its section, which names the order.
// When one core writes a checkpoint, the record has the checkpoints of both, because the log is cut before
// it. An entry begins with its version.
package order
