// Package remote has the parts that providers of package fabric share: the initiator's end of queues, and
// regions whose target executes operations in software.
//
// Peer is the initiator's end. A provider takes posted operations from a Peer, sends them, and passes the
// answers to the Peer. The answers have the order of the operations. Regions are the memory of a target, with
// the rights of peers. Execution applies the operations of one connection to Regions.
//
// The package has no goroutines and no connections. A Peer and an Execution must not be used concurrently;
// Regions may be.
//
// # Format
//
// All numbers are little-endian. An operation is kind (1 byte), flags (1; bit 0: notify), region (4), place
// (8), length (8), note (4), and the data of a write. An answer is status (1), incarnation (8), length (4),
// and the data of a read. Answers come in the order of operations.
package remote
