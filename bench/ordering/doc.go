// Package ordering measures the atomic multicast protocols beside each other, as thesis section 4.5
// does: 8 groups of 3 replicas in a LAN and in two wide-area networks (T Table 4.1), a closed-loop
// client beside each replica, growing load. It is what `globalfs-lab multicast` runs.
//
// # The model
//
// Time is virtual, what computing costs is real. Each process is a machine of its own with one CPU. A
// step of its core is really executed, and keeps the process busy in virtual time for as long as it
// took; a fixed price is added for what the operating system would do (Cost). What arrives
// meanwhile gathers and goes into the next step, so that throughput saturates, and packing pays, as
// they do on real machines. 24 processes fit on one core, and a wide-area network on a table.
//
//   - A link is FIFO and takes half of the round-trip time; its latency deviates by 5% (standard
//     deviation), drawn anew every ten latencies. Drawn for every frame, frames
//     that keep their order would all be as slow as the slowest of their neighbours.
//   - A frame leaves when the step that made it ends, after the frames before it have passed the network
//     interface. What is received has no limit but the senders'.
//   - Nothing is written to a disk, as in the thesis (T 4.5.1). A process has its records at once.
//   - A process reaches itself at once and for free.
//   - What a step takes is the CPU time of its thread, so that neither other programs nor the
//     garbage collector count, which runs between steps only.
//
// Package sim is not used: it is made to break protocols, with faults, disks, checks and a digest of all that
// happens. What is needed here is a network of places, a busy CPU and no more.
//
// # What is measured
//
// A client multicasts to its own group and to others at random, and has a fixed number of
// messages outstanding. Before the next one it thinks, 10 ms on average in the WANs: some tenth of the
// latency. With no time to think at all, messages that a convoy delivers together are followed by messages
// proposed together; after a few rounds all clients march in step, dozens of messages share each frame, and
// there is no convoy to be seen any more. Real clients are apart by what their own machines do. Latency is
// from the proposal to the delivery at its own replica; throughput counts messages so delivered by all
// clients. What happens before the warm-up ends does not count.
//
// Beside the scenarios, Steps counts communication steps: on links that all take
// one unit, with computing for free.
package ordering
