// Package skeen is Skeen's atomic multicast: thesis Algorithm 4. It is the
// smallest correct core, the worked example of package multicast.
//
// Skeen tolerates no failures. A group is one process. It records nothing, so a process that ends cannot come
// back, and Replay always returns an error. Links must not restart after they have started.
//
// A process gives each message a local timestamp from its logical clock, and sends it to all destinations.
// The highest of these timestamps is the final one. Messages are delivered in the order of (final timestamp,
// id). Algorithm 4 breaks ties by partition, which makes timestamps pairs. Here ids break ties, because
// package multicast orders by ids. Collision-free latency is two communication steps, failure-free latency
// four.
//
// Invariants:
//
//	I1  clock is at least every local timestamp given here and every final timestamp known here,
//	    so that later messages are ordered behind both.
//	I2  the local timestamp of a message that is not delivered is a lower bound of its final
//	    timestamp: no other message is delivered that could be ordered behind it.
//	I3  high[s] is the highest number of sender s that was given a local timestamp; senders number
//	    their messages upwards and links are FIFO, so a message at or below it is not new.
//	I4  with InOrder, when a process acknowledges m, its clock is past m, and each message that asks and
//	    precedes m here has been acknowledged by all its destinations, or goes to all those of m.
//
// # Atomic global order
//
// The parts of Algorithm 4 in gray are for atomic global order: a message that asks for it and has
// several destinations is delivered when all of them have acknowledged it. The thesis acknowledges
// once the final timestamp is known (Decided, line 16), and that is not enough. It excludes cycles of two
// messages, and its proof (T 5.3.2) speaks about these. Here is a cycle of three, with the clock of H at 8:
//
//	c2 to H and K     gets 9 at H; START to K is slow
//	c1 to G and H     gets 1 at G and 10 at H; both know that 10 is final and say so
//	G delivers c1     H does not: c2 may be first
//	c3 to K           is multicast after that, gets 1 and is delivered
//	c2                now gets 2 at K; 9 is final, H delivers it, and then c1
//
// So c1 < c3 in real time, c3 < c2 at K and c2 < c1 at H. A client sees it: let y to G
// read the value that c1 wrote there, and finish before c3 starts. TestDecidedIsNotEnough plays it.
//
// The remedy is to acknowledge later, as I4 says (InOrder). Here H says nothing about c1 before K, too, has
// acknowledged c2. To wait until all before m is delivered would do as well, but messages to the
// same destinations would then follow each other at the pace of one a step.
//
// Let m precede m' if both have a destination in common, where m has the lower position, and both ask or go
// to one group. By I1 and I2 a process that delivers m, or has its clock past m, knows all that
// precede m there. A message to one group needs no acknowledgement.
//
// Claim: when q delivers m, then m and all that precedes it, directly or over others, is acknowledged by all,
// where it asks and goes to several groups. If not, take a shortest chain m = a0, a1, ... ak, where a(i+1)
// precedes a(i) at r(i), and ak is not acknowledged by all. If r(0) is q, then q has delivered a1, and so
// heard all acknowledgements of it and k > 1. No a(i) with 0 < i < k goes to one group, as the chain could
// leave it out; so if r(0) is not q or k > 1, a(k-1) goes to several groups and is acknowledged by all,
// r(k-1) included, the chain being a shortest one. By I4 ak then goes to all destinations of a(k-1). If k >
// 1, one of these is r(k-2), where ak thus precedes a(k-2): the chain was not a shortest one. If k = 1, one
// of these is q, which has delivered ak before m. Both cannot be.
//
// No cycle: let g(m) be the first time when m has arrived at a destination, and m and all that precedes it
// directly or over others is acknowledged. Then g(m) <= g(m') if m precedes m', and g(m) is between the
// multicast and the first delivery of m, by the claim. If m' is multicast after some delivery of m, then g(m)
// < g(m'). In a cycle all g are thus the same, so that no relation is one of real time; and delivery alone is
// acyclic, as positions grow. Each message to several groups that needs the promise must ask for it; messages
// that do not ask may stand before, between and behind without harm.
//
// No deadlock: final timestamps are found without waiting for any delivery, and new messages come behind
// clocks that only grow, so that those below a given position are finitely many. The lowest that is not
// delivered has nothing before it anywhere: all acknowledge it, and it is delivered.
//
// Latency with acknowledgements: collision-free three steps, and failure-free four if all that ask have the
// same destinations. If these overlap in part, an acknowledgement may wait for another one a step away, and
// this for a third: there is no bound that does not depend on the load. Decided has the same three and,
// mostly, four.
package skeen
