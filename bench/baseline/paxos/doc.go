// Package paxos has the parts that replicated groups need beside the rules for timestamps: the consensus
// inside a group, and a process around it. The baselines classic and fastcast are rules on top of it. It is
// for benchmarks only.
//
// Log is multi-Paxos with a fixed leader, the first member of the group. Commands name messages and
// timestamps; all that is proposed in a step is one instance, and instances are pipelined. Members broadcast
// ACCEPTED, so all learn two steps after the leader proposed; with three members followers
// learn after one, as ACCEPT counts for its leader.
//
// Member sends the content of a message (START) once to each process of its destination groups, packs all of
// a step's packets for a peer into a frame, keeps the group's clock and the messages with a local
// timestamp, and delivers.
//
// There is no leader change, nothing is recorded, and Replay always gives an error. Links must not
// restart once they have started. Ballots are therefore not on the wire, and messages that
// ask for multicast.AtomicGlobal are refused. Every process keeps a message, as a recovery would need it,
// until all its destinations have delivered it.
//
// # Forgetting
//
// A follower tells its leader how far it has delivered, a leader tells the leaders of groups that it shares
// messages with how far all its members have (DELIVERED), and its followers up to where all is delivered by
// all destinations (FORGET). All ride on the next frame to that process, or go alone after a
// tenth of a second, so that a group that falls silent holds up nobody.
//
// # Invariants
//
//	I1  the clock is a function of the decided commands: Assign raises it by one, above the message's After,
//	    and is the local timestamp; SyncSoft and Final raise it to theirs.
//	I2  a message that has a local timestamp and is not delivered is in a heap by (bound, id). The bound is
//	    the local timestamp, and the final one once that is known; as the clock is at or above it then, every
//	    timestamp assigned later comes behind it, so a final message at the top is next.
//	I3  a sender numbers upwards and links are FIFO: STARTs come in the order of numbers. A message at or
//	    below the highest number (peer.high) that is not kept has been forgotten.
//	I4  a message is delivered only after all packets and commands that name it have come, but for a HARD that
//	    another member of the same group has said before.
package paxos
