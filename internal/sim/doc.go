// Package sim runs processes in virtual time: a network, disks and clocks that fail in every way that package
// multicast allows, all drawn from one seed. The same seed gives the same run, event by event.
//
// There are two layers. A Network steps nodes (package turn), carries their frames, syncs their records, and
// stops and restarts them. Run puts a protocol core on each process and multicasts at random while faults
// happen. Then it heals everything, demands that all messages are delivered (liveness), and gives the History
// to package check. A larger component, such as a replica with clients, is a node of its own on a Network.
//
// A Network does the following to its nodes:
//
//   - frames of a link arrive in order, those of different links in any order; a link can
//     stall, and it can restart, which loses the frames on the way and gives both ends the
//     frame without data;
//   - a process can pause: everything reaches it later, all at once;
//   - records take time to become durable. The output of a step leaves only then, in
//     order; depending on the configuration the process steps on meanwhile;
//   - a process, or all at once, can stop and come back with its durable records. Of those
//     being written a random part has become durable, though nothing that they gate has
//     left;
//   - the members of a group can lose power together, and with it the records and the writes of their stores
//     that were not synced (power.go);
//   - processes may be nodes of a fabric of one-sided memory, with faults of its own (memory.go);
//   - wall clocks differ, and jump; Mono counts from each start;
//   - calls of clients get lost, also after they were executed, and are repeated; those that
//     end without an answer are withdrawn, or not.
//
// The package has no goroutine and reads no clock. It is for tests only.
package sim
