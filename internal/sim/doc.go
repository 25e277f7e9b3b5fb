// Package sim runs processes in virtual time: a network, disks and clocks that fail in every way that package
// multicast allows, all drawn from one seed. The same seed gives the same run, event by event.
//
// There are two layers. A Network steps nodes (package turn), carries their frames, syncs their records, and
// stops and restarts them. Run puts a protocol core on each process and multicasts at random while faults
// happen. Then it ends all faults, demands that all messages are delivered (liveness), and passes the History
// to package check. A larger component, such as a replica with clients, is a node of its own on a Network.
//
// A Network does the following to its nodes:
//
//   - frames of one link arrive in order, frames of different links in any order. A link can stall. A link
//     can also restart: then the frames on the way are lost, and both ends receive a frame without data;
//   - a process can pause: all its input arrives at the end of the pause;
//   - records take time to become durable. The output of a step leaves only after that, in order. Depending
//     on the configuration, the process takes further steps before;
//   - one process or all processes can stop, and restart with their durable records. A random part of the
//     unfinished records has become durable, although the output that waits for them has not left;
//   - the members of a group can lose power together, and with it the records and the writes of their stores
//     that were not synced (power.go);
//   - processes may be nodes of a fabric of one-sided memory, with faults of its own (memory.go);
//   - wall clocks differ, and jump; Mono counts from each start of a process;
//   - requests of clients and their answers get lost and are repeated. Some calls without an answer are
//     withdrawn.
//
// The package has no goroutine and reads no clock. It is for tests only.
package sim
