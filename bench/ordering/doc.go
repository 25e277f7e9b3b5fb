// Package ordering measures the atomic multicast protocols beside each other, as thesis section 4.5 does: 8
// groups of 3 replicas in a LAN and in two wide-area networks (T Table 4.1), a closed-loop client beside each
// replica, growing load. `globalfs-lab multicast` runs it.
//
// # The model
//
// Time is virtual, and the cost of computing is real. Each process is a machine of its own with one CPU. A
// step of its core is really executed, and keeps the process busy in virtual time for as long as it took; a
// fixed price is added for the work of the operating system (Cost). Input that arrives meanwhile gathers and
// goes into the next step, so that throughput saturates, and packing pays, as on real machines. 24 processes
// fit on one core, and a wide-area network fits into one machine.
//
//   - A link is FIFO and takes half of the round-trip time; its latency deviates by 5% (standard
//     deviation), drawn anew every ten latencies. Drawn for every frame, frames
//     that keep their order would all be as slow as the slowest of their neighbours.
//   - A frame leaves when the step that made it ends, after the frames before it have passed the network
//     interface. Received frames have no other limit than that of their senders.
//   - Nothing is written to a disk, as in the thesis (T 4.5.1). A process has its records at once.
//   - A process reaches itself at once and for free.
//   - The cost of a step is the CPU time of its thread, so that neither other programs nor the
//     garbage collector count, which runs between steps only.
//
// Package sim is not used: its purpose is to break protocols, with faults, disks, checks and a digest of all
// events. This package needs only a network of places and a busy CPU.
//
// # The measurements
//
// A client multicasts to its own group and to others at random, and has a fixed number of messages
// outstanding. Before the next one it thinks, 10 ms on average in the WANs: some tenth of the latency.
// Without time to think, messages that a convoy delivers together are followed by messages proposed together;
// after a few rounds all clients march in step, dozens of messages share each frame, and the convoy is no
// longer visible. The work of their own machines keeps real clients apart. Latency is from the proposal to
// the delivery at its own replica; throughput counts these messages of all clients. Messages before the end
// of the warm-up do not count.
//
// Beside the scenarios, Steps counts communication steps: on links that all take one unit, with computing for
// free.
package ordering
