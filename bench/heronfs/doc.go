// Package heronfs executes commands of the file system (package meta) in the way of Heron (package heron):
// the partitions of a region have one order, TRAM's, and a command over several partitions is executed by
// each of them at one place of that order. A replica reads the state of the other partitions from their
// memory. There are no votes, no holds and no decisions in messages. Package virtual measures a Node
// beside whole replicas.
//
// # Objects
//
// The objects of a partition are pages: the inodes, names and forwardings whose keys have the same hash.
// Each page is written at the start, so a reader finds the slots of all pages. A replica keeps all keys of
// its partition in a store and writes the pages that a command has changed.
//
// # Execution
//
// A party computes the votes of all parties (meta.Machine.Prepare) itself, those of others over the keys
// in the pages that it has read. By uniform prefix order and Heron's reads all parties compute equal
// votes, and so each decides alike (meta.Machine.Decide) within the execution of the command.
//
// # Bounds
//
// A Node measures; it is not a server. Its state is in memory. It has no sessions, no leases and no
// vectors. The read set of a command is known before the command: a directory is in the partition of its
// number, and files have no content, since their extents are not on pages. A lagger of Heron would get the
// pages and not the other keys of the partition, so a Node waits in phase 4 for all members
// (heron.Config.Patience), and no process may fail.
package heronfs
