// Package primcast is PrimCast, the genuine atomic multicast of the thesis "Scaling Strongly Consistent
// Replicated Systems", chapter 4: each destination delivers after three communication steps, and a group
// changes its primary when the primary is silent. Comments name the lines of its Algorithms 1 to 3.
//
// # In short
//
// A message m has destination groups m.dest, and each group has a primary and followers. Without contention m
// takes three communication steps:
//
//		step 1   sender                         START(m), the content           to all processes of m.dest
//		step 2   primary of each group          entry ⟨E_cur, index, m, ts⟩     to all processes of m.dest
//		step 3   each process of each group     ACK ⟨E_cur, length, clock⟩      to all processes of m.dest
//
//	 1. The sender multicasts START(m) (propose.go).
//	 2. The primary of each destination group gives m the next timestamp of its clock, appends m to its log T,
//	    and sends the entry. Its followers append m, too.
//	 3. Each process acknowledges its T (ledger.go). The acknowledgements of a quorum decide the local
//	    timestamp of m in the group. The final timestamp is the highest local timestamp. Timestamps of other
//	    groups move clocks forward (limits.go).
//	 4. A process delivers m once the clocks of its primary and of a quorum have reached the final timestamp,
//	    and no other message can come before m (deliver.go).
//	 5. When a quorum receives nothing from its primary (oracle.go), one of the members starts an epoch with
//	    the most up-to-date T of a quorum (epoch.go), perhaps with other members (roster.go).
//
// # Notation of the thesis
//
//	M, D            messages that this process knows; messages that it has delivered
//	T               the log of its group, in the order of the primary
//	E_cur, E_prom   the epoch of T; the highest epoch that this process has promised to join (line 61)
//	E_max, T_max    the highest E_cur among the promises for an epoch, and the longest T of that epoch
//	local-ts        the timestamp of a message in one group; final-ts is the maximum over m.dest
//	min-clock(q)    a lower bound of the clock of process q
//	quorum-clock    the highest value that the clocks of a quorum have reached
//	line n          a line of Algorithms 1 to 3
//	R1, A1, O1      rules of roster.go, amnesia.go, overlap.go
//
// # Code
//
// The core has layers, from system up to Core (see Core). Parts with their own state and few methods are
// journal (the log on disk), oracle (suspicion of the primary), seating (the members of a group), sequence
// (T), numbers (D) and queue (pending messages). Each kind of packet is a type (packets.go). This table has
// the functions for the lines of the algorithms:
//
//	lines 1-8     core.go New          31-32  propose.go multicast    57-60  epoch.go startCampaign
//	9-14          state.go localTS     33-34  onStart                 61-64  onNewEpoch
//	15-18         limits.go            35-39  propose                 65-69  onPromise, gatherState
//	19-25         deliver.go pend      40-45  ownEntry, follow        70-74  onNewState, install
//	26-30         deliverable          46-50  ledger.go onEntry       75-78  onAccept
//	                                   51-52  limits.go onBump        79-81  activate
//	                                   53-56  deliver
//
// # Invariants
//
//	I1  The clock never goes back, not even by a restart: the log bounds every clock that was sent.
//	I2  In an epoch T grows by one index at a time with ascending timestamps; a follower's T is a prefix of
//	    the primary's (Lemma 2).
//	I3  Positions of deliveries ascend strictly (Lemma 7), over restarts too; with Conflicts, those of
//	    messages that conflict; with Classes, those of each class.
//	I4  E_cur <= E_prom.
//	I5  min-clock(primary) is ts only if all its proposals up to ts are known. Delivered messages are in T,
//	    durably.
//	I6  A local timestamp that a quorum acknowledged never changes (Lemma 4).
//	I7  Output.Safe and SafeOf never go back, and each delivery is above all Safes before it, and above all
//	    answers of SafeOf for its class.
//	I8  T is replaced only after the entries that a quorum has acknowledged (Lemma 3).
//	I9  If a process has reported that it covers a message, its log shows that the message is delivered: the
//	    message is in D, or in T with its final timestamp. This stays true when the process takes over a
//	    state.
//
// # Acknowledgements are state
//
// The paper's ACK names a message, its T entry and its epoch. Our ACK has the length of T: in one epoch T
// only grows, so the newest ACK of a process, ⟨E_cur, length, clock⟩, stands for all its earlier ACKs,
// for its BUMPs, and for a heartbeat. Only the primary sends entries ⟨E_cur, index, m, ts⟩, to the
// processes that they concern. A process that receives a length beyond its known entries asks for the missing
// ones: first the primary and, if that does not answer, the other members in turn. A quorum must have
// acknowledged an entry in one and the same E_cur. This is stricter than line 10, where the epoch is the
// entry's own. It costs nothing, since all processes acknowledge all of T when an epoch begins (lines 79-81).
//
// A process that has promised to an epoch and is not in it acknowledges nothing; it sends its clock with
// E_prom (BUMP), and this clock does not count in lower epochs (line 16).
//
// A follower of a group of at most three members decides without the ACKs of the other follower: with its own
// T and clock, the primary's are those of a quorum (lines 10, 17 and 18), and lines 28 and 42 wait for the
// primary anyway. Followers need each other's ACKs only to learn of entries that a primary has sent to one of
// them, and of coverage. Between two followers an ACK therefore leaves with other packets or, without any,
// after a quarter of FetchAfter. It is the newest one then, and stands for all before it. For the algorithm,
// the link between two followers is slow.
//
// # Additions to the paper, and differences
//
//   - Line 42 takes an entry from the primary only as a FOLLOWER, and there is no second chance: an entry
//     that overtakes the last ACCEPT of another process would be lost. Here the entry itself proves that a
//     quorum has accepted the epoch, unless it belongs to the T that the epoch begins with.
//   - PROMISE and NEW-STATE carry the length of T, and only the entries that the receiver lacks follow. By
//     Lemma 3 and Lemma 2 these are the entries after its T if it is in the epoch of T_max, else the entries
//     after those that it knows to be decided. A process that takes over the state of another member (Adopt)
//     gets another E_cur and T. So NEW-STATE names E_cur of the PROMISE that it answers. It is void in
//     another epoch, unless it continues decided entries. The receiver does not wait for entries that are
//     decided there: it may have covered them since its PROMISE, and the other process may have forgotten
//     them.
//   - Safe timestamps hold only while the process follows an active epoch (line 53): the T of an epoch that
//     was installed and never accepted by a quorum is no base for line 28, and the entries that it lacks may
//     be pending again in the next epoch.
//   - The members of a group may change (roster.go). The paper's groups are fixed.
//   - A process that promised to an epoch that failed would be excluded for ever; the working primary starts
//     a higher epoch to bring it back.
//
// # Crashes and links
//
// The paper's processes stop for ever; its r-multicast is reliable and FIFO. Our processes come back with
// their log, and a link that restarts loses the messages on the way (multicast.Frame).
//
//   - Records before messages. Promises, the T of a new epoch, and each entry, with its content, are
//     recorded before any message that follows from them is sent. The clock has a ceiling in the log, ahead
//     by a stride, and a restarted clock begins at the ceiling. So no promise, ACK or BUMP goes below an
//     earlier one. The records of a durable message (multicast.Message.Durable), a promise, the T of an epoch
//     and a roster are also synced (Output.Sync). So each process that acknowledges a durable message has it
//     on its disk, and all of T before it: by I2 and Lemma 3, also if it came with NEW-STATE. A process that
//     loses power may forget records that were not synced. Then it has no vote until it has the T of a new
//     epoch, which members that remember have begun (amnesia.go has the proof).
//     With Config.Overlap, content and a primary's proposals do not wait for the records. Then a primary
//     that restarts does not continue its epoch (overlap.go has the proof).
//   - When a link starts, each side sends its state again: own messages that the other side does not cover,
//     NEW-EPOCH, PROMISE or ACCEPT, its ACK, and its coverage. All handlers are idempotent.
//   - A follower takes the primary's next index only; after a gap it counts neither length nor clock of the
//     primary until the gap is filled. This keeps I2 and I5 (Lemma 6, third case) without trust in links.
//   - A restarted process is in the state of its last durable step, as if its messages since had been slow.
//     Only early proposals have left without a durable step.
//     It is active again once a quorum's ACCEPTs, or any ACK of its epoch, show that the epoch is active.
//
// # Bytes bound a step
//
// A step takes from the application, proposes, sends again and streams about Config.MaxFrame bytes of content
// each. A sender has at most Config.WindowBytes on the way. The rest is stored, and the core requests the
// next step at once (frame.go). A T of any length comes in parts: NEW-STATE names its length, and the
// receiver of a part asks for the next one (incoming.go).
//
// # The content travels once
//
// Entries hold an id, not m. A follower keeps the primary's proposals in order (variables.accepted) and
// appends, and acknowledges, each once its START has arrived too. Waiting proposals count as T in line 30.
// Three steps suffice as before: START leaves the sender for all destinations at once, one step before a
// primary's entry can arrive.
//
// Line 47 makes START(m) known to each process that receives a remote ACK, so that m survives its sender.
// Here START comes from the sender, which repeats it when a link starts. If the sender crashed, content is
// fetched from processes with m in T (fetch.go), and a process with the content gives it to a primary that
// does not propose it (oracle.go relay). An own message is not recorded at its sender. It survives the
// sender's crash once a primary has it in T; otherwise no destination delivers it. Reply to clients after
// delivery.
//
// # Forgetting
//
// A process reports, on frames that it sends anyway, up to which position of each class its state machine is
// durable (Input.Covered; there is one class without Config.Classes). When all members of all groups in
// m.dest cover m, no process can need it again, and it leaves M and T (trim.go). Absent members do not delay
// this for ever: beyond Config.Retain they are left behind, and take over the state of another member when
// they return (transfer.go). After a restart, a process can need the timestamps of an entry that it has
// delivered before, to know that it did. Hence final timestamps of messages to several groups are recorded,
// without a write of their own, before coverage is reported.
//
// If the state machine of a process has m, and its log does not, m is pending after a restart. If other
// processes have forgotten m, they report it (BEHIND), and the process needs the state of a member that knows
// m:
//
//  1. There is such a member. A forgotten message is covered by a quorum of each destination group, and I9
//     holds for it.
//  2. This is also true if that member is behind itself, in another order of its replica, and takes over the
//     state of a member that does not know m. It adds its own knowledge of m (transfer.go teach).
//  3. It may add that. The final timestamp is the same at all processes, and so is the index of m, which a
//     quorum has acknowledged (Lemmas 2 to 4). Its own state machine durably has all that it has forgotten
//     (trim.go), and so has the state that it takes over, which is at least as far (Adopt).
//  4. I9 holds afterwards. A covered message that is not in the new T was forgotten there, and is in the D
//     that comes with it (Lemma 3).
//
// The state machine may be ahead of the log in messages to several groups: a replica also receives these in
// the order of its partition. Such a message is not covered before T or D has it (I9). Otherwise the other
// processes would forget it, and T would lack it for ever: entries after it could not be appended, and
// NEW-STATE, which names the length of T, would stay incomplete. A quorum that needs this process would not
// accept an epoch again.
//
//  1. A process that has delivered m, in this life or before, has delivered all before m in the class of m
//     (Classes, 1). So its last delivery of each class shows up to which position T and D are complete
//     (delivery.held). After a restart the log shows it: final timestamps are recorded of deliveries only,
//     also in a checkpoint. A final timestamp that is known before the delivery says nothing about other
//     messages. The pending messages of the class come after held, whatever their bounds are: no process has
//     forgotten them as a part of the messages up to held.
//  2. Coverage is at most held, and so I9 holds. Until then the other processes keep the entries that T
//     lacks, and send them.
//  3. Processes that leave this process behind report it (BEHIND). Unless its held is as far, it needs the
//     state of a process with a held that is as far. There is one, by 1. of the list above.
//  4. Safety: covered messages are delivered here, by 1. A final timestamp that is not in the log is learned
//     again, like after a restart without a checkpoint: a process that has forgotten it sends BEHIND.
//  5. Messages to one group must come from the core. After a restart an entry of such a message counts as
//     delivered if the state machine is as far (begin). If the state machine were ahead, this could be an
//     entry of an epoch that failed.
//
// Only the number of a delivered message remains, in D (done.go). D is exact. It is small because a sender
// numbers its messages in ascending order over its whole life, restarts included, and START names the number
// sent to the group before.
//
// The log shrinks by checkpoints: a record of the live state that replaces all before it (journal.go).
//
// # Classes
//
// With Config.Classes, line 30 is only about messages with the same destinations as m, its class. All other
// lines stay as they are. Where a core without classes has one position, a core with classes has one for each
// class: of deliveries, of the durable state, of coverage, of forgotten messages, of safe timestamps
// (class.go).
//
//  1. A class has one order. Let m and x be of one class, x with the lower position, and let p of group g
//     deliver m. Both go to g. By lines 28 and 29 a message without a proposal that p knows gets a local
//     timestamp above final-ts(m) in g. So p knows a proposal of x. Either p has delivered x, or x is pending
//     in the class with a bound that is not above its position. Line 30 excludes the latter. So every
//     destination process delivers the class in the order of positions, without gaps: prefix order and
//     acyclic order hold within it.
//  2. The clocks need no classes. Lines 28 and 29 are about all messages of g, and so about those of a class;
//     line 22 and I5 too. The hybrid clock changes line 37 only, and step 1 does not depend on their moves.
//  3. m waits for less. Lines 27 to 29 wait for m.dest and g, and line 30 for messages to exactly m.dest: no
//     other group has a say. A proposal without its START has no known class, since entries do not name one:
//     it counts for every class. This costs nothing more. T, and with it each acknowledgement of this
//     process, waits for the same content (variables.follow), and the primary of the own group has it.
//  4. T stays one sequence of all classes. Indexes, acknowledgements by length, epochs, NEW-STATE, relays and
//     fetches are about T, and Lemmas 2 to 4 do not speak of the order of deliveries. So the change of the
//     primary and helping are as before.
//  5. By step 1, a position says which messages of its class a state machine holds. So each argument of this
//     text about one position holds for the position of each class: m is forgotten when all members of m.dest
//     cover its class up to m; a process that restarts does not deliver it again if the class was durable up
//     to it; BEHIND names a class, and Adopt takes a state that is as far in all of them. I9 is about single
//     messages.
//  6. Entries leave T in any order, so it has holes. A process that asks for T after an index never needs a
//     forgotten entry, unless it was left behind and gets BEHIND. All others cover that entry. So they had
//     it in T, they know it to be decided (I9), and T is not cut before a decided entry (I8).
//  7. A message is stuck while a group of its class cannot be reached. It keeps its content, its place in T,
//     and its share of the sender's window of its class. Nothing else waits for it. Messages get their
//     numbers in the order of proposals, and leave as the windows of their classes open. The number before m
//     that START names counts messages that still wait for a window, so that D never takes such a number for
//     one that does not exist. If the sender stops, such a number never comes: D has one more span.
//
// # Atomic global order in three steps
//
// Lines 28 and 29 hold for the own group only, so a message may be delivered here while another of its
// destinations can still order another message before it (T 5.4.3). For a message that requests this order,
// line 27 gets a conjunct: for each other group h of m.dest, with E the latest epoch of h known here,
//
//	(a) a quorum of h has sent, in epochs up to E, clocks at or past final-ts(m);
//	(b) the primary of E has sent a clock at or past final-ts(m), and with it that it has delivered all
//	messages
//	    that precede m in h and do not come to this group (its front); or a follower has sent the same, with
//	    its limit of lines 28 and 29 in the place of the clock.
//
// All destinations send clocks and fronts to all of m.dest when m moves them, which is in the step in which
// BUMPs are sent: without other messages, three steps remain.
//
// Claim: when a process p of group g delivers m, each message x that precedes m in the order and shares a
// group h with it has been delivered by some process. If x comes to g, p itself delivers it before m (Lemma
// 7). Else consider the local timestamp of x in h, which is below final-ts(m), and the epoch E' in which h
// decides it. E' > E: its primary starts above the clocks of some process of each quorum (line 68), against
// (a). E' <= E: x is in the T of E's primary when it sends its clock (Lemma 3, or since it proposes above
// its clock), so that by (b) it has delivered x.
//
// Now take a cycle of the relation in package multicast's documentation, in which each message asks or goes
// to one group only, with y before z in real time somewhere in it. The messages that lead by delivery
// orders to y were, by the claim and induction (for a message to one group it is Lemma 7), delivered, and
// so multicast, before y was delivered anywhere, and hence before z was multicast. Around the cycle this
// puts a multicast before itself. Without real time there is no cycle (Proposition 6).
//
// The thesis requires less: that clocks of all of m.dest are past final-ts(m) (5.3.2 (iii)). That excludes
// cycles of two messages only; package skeen has the counterexample, and the simulator finds it. No message
// blocks itself: of all undelivered ones, the lowest has nothing to wait for. But waiting spreads over groups
// that overlap in part, so there is no bound on the steps under load.
//
// With hybrid clocks that are at most e off (Config.ClockError) there is another way, without another message
// and without waiting for others: m is delivered when the own clock is more than 2e past final-ts(m). True
// time is then more than e past it, and every primary's clock is past it: every message that is multicast
// from now on gets a higher timestamp (line 37 with T 4.4.1). All edges of the relation then go up in
// timestamp, so it has no cycle. (A message to one group that does not request this order, and is delivered
// early, is no exception: on a path to it the last message to several groups requested it, and was delivered
// before it by the same process.) In a WAN e is below a step, and the timestamp is past when it is known:
// three steps remain, under load too.
//
// # Genuineness
//
// Only the sender and m.dest take steps for m (Proposition 1): entries and ACKs go to m.dest, clocks to the
// own group, HAVE to a sender outside of m.dest. The oracle sends only in a group in which some message
// waits, and all processes are informed of a change of members.
package primcast
