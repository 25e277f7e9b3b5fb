// Package direct carries commands of several partitions without a multicast: the sender of a message sends it
// to every member of every destination group, which delivers each message that arrives. It is an order.Core
// of the laboratory, to compare the order between partitions of the product with. No product code uses it.
//
// # The protocol
//
// A sender numbers its messages by destination set. A lane is the sequence of messages of one sender to one
// destination set, and a class of its own (Class). A member delivers the messages of a lane in the order of
// their numbers, without gaps. The position of a message is its number in the lane. All receivers know it, so
// that the replicas of a group and the parties of a command name positions alike.
//
// A sender records a message before it sends it, and keeps it until a quorum of each destination group holds
// it durably (Input.Covered). When a link starts anew, the sender repeats the messages that it keeps. A
// member that was away when its group covered a message skips it: the state machine of the group has it.
//
// # Guarantees
//
//	D1  Lane order: two processes deliver messages of a lane in the same order, and a process skips only
//	    messages that a quorum of its group holds durably.
//	D2  Integrity: a process delivers a message at most once in its life, only if it was proposed, and only if
//	    the process is a member of a destination group.
//	D3  Delivery by a sender that lives: if the sender of a message does not fail for ever, every correct
//	    member of every destination group delivers or skips it. The sender may restart, with its log.
//
// # Missing guarantees
//
//   - No order between lanes. Two members of a group deliver messages of different senders in different
//     orders. Package cross takes its safety from holds, not from an order, and relays each lane as a class
//     of its own.
//   - No uniform agreement. If a sender fails for ever, some members may have delivered its last messages,
//     and others never will. Within a group the first relay settles it. Between groups the coordinator of the
//     command does: it presumes abort, and the parties ask it.
//   - No memory bound by itself: a sender keeps all messages to a group of which no quorum can be reached.
//     The replica bounds them, because it proposes commands only to parties in reach.
//   - No frame bound: a link that starts anew gets all messages that are kept for its process in one frame.
//   - No replacement of members.
package direct
