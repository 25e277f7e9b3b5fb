// Package multiring is Multi-Ring Paxos (Marandi, Primi, Pedone, DSN 2012; thesis 4.6.3 and 5.4.2) as the
// original GlobalFS used it: the protocol to compare with. It is for benchmarks only.
//
// Each group is a ring that orders the messages to this group alone. One more ring of all processes,
// the global one, orders the messages to several groups. Every process subscribes to both, and merges
// them deterministically. This is not genuine: a message in the global ring goes through all processes, and
// the processes that are not destinations discard it.
//
// # A ring
//
// The first member is the coordinator. A sender hands it a message (PROPOSE), and it
// gives the message the next slot of the ring (VALUE), with its own vote. The value goes from each member to
// the next one, and each adds its vote: at the member with index i it has i+1 votes, so that
// votes need not be written down. The member that completes a quorum knows that the slot is
// decided, and so do those after it; the last one passes the decision on (DECIDED), and it goes round to
// those before. Links are FIFO and slots are voted in order, so a decision is one number.
//
// The global ring costs a delay a hop, so Config.Ring lets it cross each region once. All values cross each
// of its links, and a coordinator orders a limited number of bytes in a step (maxStep), so that they do so at
// the same time.
//
// # The merge
//
// A process takes M slots of its group's ring, M of the global ring, and so on. A ring that has
// nothing to order must not hold up the other, so a coordinator fills slots with skips (SKIP, any number of
// slots in one packet). A slot's place in the merge is the final timestamp: of slot s, counted from 0 and
// with the skipped ones, of a ring of rank k (0 the group's, 1 the global one) it is
//
//	(s/M)*2M + k*M + s%M + 1
//
// All destinations of a message see it in the same slot of the same ring, so they agree. A process sees each
// slot of its two rings once and no two have the same place, so positions ascend. And since all processes
// deliver in the order of one number that a message carries, the union of their orders has no cycle. A
// process need not look at skips to know the messages that it may deliver: each ring has a frontier, the
// place of its first slot that is not decided, and everything below both frontiers is complete.
//
// # Skips
//
// Every Delta the coordinator of the global ring skips so many slots that the ring has had Lambda a second
// since its start (as URingPaxos does it). A skip costs the same however many slots it covers, so
// Lambda should be more than any group can order: a group that is faster waits for the global ring.
// The coordinator of a group's ring skips to where the global ring is decided, as soon as it hears of it. In
// the original it has a timeline of its own. Such a timeline needs clocks that agree, and a message that
// stays in the group waits until the global ring, through all regions, has decided everything that is as old.
// Following needs no clocks and is kinder to local messages; a global message takes a round of the group's
// ring longer. A message that stays in the group still waits up to Delta for the next skip if it is not the
// first one (of M) since the last.
//
// Idle rings cost a frame a process each Delta. In a local network a millisecond is
// right; in a wide one Delta should be about a tenth of a round trip, 10 ms say. With one group there is no
// global ring, no merge, and no skip.
//
// A lower bound of the final timestamp (Message.After) is met by skipping. It is one that some process has
// seen, so the global ring has been there, and the group does not wait for long.
//
// # Omissions
//
// Coordinators are fixed, nothing is recorded, links must not restart once they have started: there is no
// recovery, and Replay always gives an error. Values are forgotten as soon as they are delivered here; the
// original keeps some for late learners. Messages that ask for multicast.AtomicGlobal are refused (T 5.3.1).
//
// # Invariants
//
//	I1  of each ring: delivered <= decided <= accepted, and each member's accepted is at most that of
//	    the member before it.
//	I2  values wait in the order of their slots; none is below the lower one of the frontiers after a step.
package multiring
