// Package cross executes commands of several partitions as atomic commits (thesis section 3.4.1, coordinated
// execution; section 3.4.3, recovery). It is the part of a replica that deals with other partitions: a
// deterministic state machine over the partition's own order, and messages between the replicas of different
// partitions. It owns no goroutine, socket, file or clock.
//
// # Terms
//
// A command is an update of several partitions, which are its parties. The coordinator is the party to which
// the client sent the update, and the asked replica is the replica of the coordinator that received it. Each
// command is named by the id of the multicast message that carries it. The class of a command is its set of
// parties.
//
// A partition's own order is the order of its entries; its state changes only there. A place is the number of
// an entry in an own order. The order between partitions is the atomic multicast to several partitions: it
// carries the commands, and changes no state. A command holds the names and inodes of a party that it reads
// and writes, from its vote to its outcome: other commands and updates cannot change them meanwhile.
//
// # The protocol
//
// The asked replica multicasts the command to its parties in the order between partitions. Every party relays
// the deliveries into its own order: it proposes an entry RELAY for each. The kinds of entries are:
//
//	entry    ordered at        effect
//	RELAY    the coordinator   BEGIN: admit the update of the session, take holds, vote
//	RELAY    another party     PREPARE: take holds, vote; the vote goes to the coordinator
//	DECIDE   the coordinator   all parties voted: combine the votes. THE COMMIT POINT. Execute, answer, release the holds
//	ABORT    the coordinator   a party refused to wait, or a vote did not come in time: release the holds
//	OUTCOME  another party     execute or drop the command, release the holds, forget the command, confirm
//	FORGET   the coordinator   all parties confirmed: forget the command
//	ABANDON  the coordinator   the time of the call is over: the update is answered with ETIMEDOUT, for ever
//	SEAL     any party         none; messages that wait for a quorum's disks leave after it
//
// Votes, outcomes and confirmations are messages between replicas. The leader of a party sends them; another
// replica does so if the leader does not. All of them can be repeated at any time: they are made from stored
// state. A leader keeps asking for missing votes and confirmations.
//
// # Order of relays
//
// Commands of one class are relayed in the order of their delivery. A relay names its predecessor in the
// class, and has no effect if another relay of the class was executed last. Classes are independent: a
// command that is not delivered because a party is cut off delays only commands with the same parties.
//
// Each partition stores the position of each class, which is that of the last executed relay. A copy of an
// executed relay has no effect. A command at or below the position that the partition does not list any more
// has ended.
//
// # Wait-die
//
// A command meets a conflict if another undecided command of the party holds an object that the command
// needs. The age of a command is the time of its first proposal, with the message id as tie break.
//
//  1. A command that is older than all holders waits for them. It is ordered as waiting and holds nothing.
//     Later commands of its class are relayed meanwhile.
//  2. A command that is younger than a holder, or than a command that waits for the same objects, is
//     refused. The coordinator aborts it, and the asked replica proposes it again with its first age.
//  3. A waiting command is refused, too, if an older command becomes a holder.
//
// So commands wait only for younger ones, at all parties: no cycle of waits exists. The oldest command is
// never refused.
//
// # Aborts, and the end of a call
//
// The coordinator presumes abort: until DECIDE is ordered it may abort at any time. It does so when a vote is
// missing for VotePatience. Nothing releases a yes-vote but the outcome: the coordinator may have committed.
//
// When the time limit of a call is over, the asked replica orders ABANDON. It records ETIMEDOUT as the answer
// to the update and aborts the command if it is undecided. Sessions store answers, so every copy of the
// command that is relayed later is refused: an update that was answered with ETIMEDOUT is never executed.
//
// A party may have relayed a command that its coordinator has not relayed. The party holds objects for it, so
// it asks the coordinator for the outcome. The coordinator then orders ABORT, which stores a tombstone: the
// command is aborted when it is relayed there. The party gets the outcome "aborted" at once.
//
// # Why updates are sequentially consistent
//
// Let t of a command be the moment at which DECIDE is ordered at its coordinator, and t of an update of one
// partition the moment at which its place is fixed.
//
//  1. At each party a command holds, from its vote to its outcome, all that its outcome reads and its effects
//     write (meta/hold.go). All votes precede t, and all outcomes follow it.
//  2. Two commands with conflicting holds at a party have disjoint intervals there, so their t stand in the
//     order of their effects at every party where they conflict.
//  3. An update of one partition that conflicts with a command has no effect inside of the command's interval
//     (meta/hold.go). Before it, the update precedes t; after it, the update follows t.
//  4. So the order by t contains every conflict order. A client's next update is issued after its last one
//     was answered, which is after t of the last one. The order by t keeps sessions, and real time between
//     answered updates.
//
// # Why reads are causal
//
// A vector states, for each partition q, the entries of q that a state or a client has seen (ask.Seen): their
// count, and open places. An open place is the place of q's vote on a command that is known to be committed,
// and that q may not have executed. A marked command of a partition is an undecided one whose commit is in
// the past of the partition's state.
//
//  1. Invariant V: if the commit of a command is in the past of a state or of a client, then for each other
//     party q its vector counts q's vote place, and either holds the place open or counts q's outcome. DECIDE
//     and OUTCOME open the places of the other parties, all that is sent carries the sender's vector, and
//     merging keeps both.
//  2. An open place is closed only by a statement of q itself about a place at or above the outcome (Known,
//     Undecided).
//  3. Invariant M: if the past of a state of q contains the commit of a command that is undecided at q, the
//     command is marked there: the ordered entry that brought this past carried a vector with the place open.
//  4. A read waits for the vector's count. Then it waits for an undecided command that touches its objects
//     if the command is marked, or its place is open in the vector. By 1 and 3, a reader never sees the state
//     before the command if the commit is in its own past, or in the past of the state that it reads. Other
//     readers may see that state: the order by t explains their answers.
//
// # Why partitions agree after a loss of power
//
// A client's update of one partition may be answered, and executed by all replicas, before a disk has it
// (durability `os`). If all replicas of the partition then lose power, the update is lost. Other partitions
// must not hold an effect of it. A durable entry is one that is proposed with order.Entry.Durable: its
// delivery implies that the disks of a quorum hold it and all that is ordered before it. The lost suffix of
// an order contains no durable entry that any replica has executed, as long as a quorum returns with at least
// its synced entries.
//
//  1. The order between partitions is synced in each step (package order). A message of a partition there is
//     not lost.
//  2. D1: RELAY, DECIDE, ABORT, OUTCOME, ABANDON, POSTS and SEAL are durable. Votes, refusals, decisions,
//     tombstones and ended classes change in no other entry. FORGET and POSTED are not durable: they end a
//     repetition, and a repeated outcome or post is confirmed again and has no other effect.
//  3. A vote, an outcome, a confirmation of an outcome and a receipt of posts report that such a change was
//     executed. By 1 and 2, no loss of power undoes the reported change. The vote also carries the vector as
//     of its durable entry.
//  4. D2: all other messages about the state, and all vectors but those of votes, are as of the newest
//     durable entry that the sender has executed (sealed). So each count of a partition that reaches another
//     partition by a message is a count that the partition does not lose. After a restart nothing is sealed,
//     and none of these messages leaves, until the next durable entry.
//  5. The sealed vector serves invariant V: an outcome leaves after its DECIDE, a post after its entry, a
//     confirmation after its OUTCOME, and the newest durable entry is not before any of these.
//  6. D3: a post leaves when a durable entry was executed at or after the entry that made it. The entry that
//     made it is not durable, so that making an inode in another partition costs no sync; one SEAL serves all
//     posts that wait.
//  7. The answer "aborted" to a party that asks about a command that was not relayed here rests on a
//     tombstone (2), or on a session that has ended. The latter is no durable change, so the answer waits
//     until all of the state is sealed, or a tombstone is ordered.
//  8. By 3, 4, 6 and 7 everything that another partition has learned by a message is a consequence of entries
//     that are not lost. The partition that returns executes the same entries again, and goes on from there
//     like after a crash.
//
// A client is no partition. Its vector may count entries that are lost, and carry the count to other
// partitions. The partition that has lost the entries begins a new history when it meets such a count
// (Doubt). The rules hold within a history.
//
// # Why a backup is a consistent cut
//
// A backup has a number, above those of all earlier ones. A replica knows a number when an operator has
// requested the backup there, when it has executed an entry with the number, or when it has received the
// number in a frame of a replica, in the proof of a client, or in a command of the order between partitions.
// From then on the number is in each entry that it proposes, in each frame that it sends, and in the tag (the
// proof) of each vector that it gives to a client. The marker of a partition is the place before the first
// entry with the number. Each replica saves the state of its store there (package replica). The cut is the
// union of the entries before the markers (Lai and Yang, 1987).
//
//  1. Let the entry e of partition q follow from the entry f of partition p: some process has learned of f's
//     execution, and this knowledge came, by messages, replies and requests, to the replica that proposed e
//     before the proposal.
//  2. If f is after the marker of p, then each replica that has executed f knows the number, since it has
//     passed the marker before f. So all its later messages carry the number, and so do all messages of
//     others that follow from these: a client passes on the proofs that it has received. So the proposer of e
//     knew the number, e carries it, and e is after the marker of q.
//  3. So an entry in the cut follows from entries in the cut only. Replicas compute the same marker, since it
//     depends on the order alone.
//  4. A command that is committed in the cut at its coordinator has, by 3, its votes in the cut: each party
//     there has executed it, or holds it as voted. One that is executed by a party in the cut is decided by
//     the coordinator in the cut, and the coordinator has forgotten it only if all parties have concluded it.
//     So the coordinator's state gives the outcome for every party (Conclude): commit if it remembers the
//     decision, else abort. An aborted command has no effect at any party.
//  5. A post that is executed in the cut was made in the cut. A post that was removed from the outbox in the
//     cut was executed in the cut. So the posts that are left are delivered by a restore, each once.
//  6. Nothing waits: at the marker a replica takes a snapshot of its store, and continues.
//
// # Parts
//
// Each part owns its state: other files use its methods, and not its fields.
//
//	Commands    executes the entries at their places (begin.go, decide.go), and composes the parts
//	table       the commands, and the reads and updates that wait for them
//	vector      the entries of all partitions from which the state follows
//	relays      deliveries on their way into the own order, positions of the classes
//	tombstones  commands that are aborted before their relay
//	gate        proposals by the rules D1-D3, the sealed vector
//	pursuit     proposals and messages that advance commands (pursue.go, receive.go), early ballots
//	posting     posts
//	requests    updates at the asked replica (requests.go, queue.go)
//	reach       the processes in reach
//	timer       the time of this step and of the next one
//
// # Stored keys
//
//	0x43 number     an undecided command, or one that a coordinator has decided and not forgotten
//	0x46            positions of the classes, the newest number
//	0x47            the vector
//	0x48 id         a command that its coordinator has aborted before its relay (tombstone)
//
// # Invariants
//
//	X1  a party executes a command at most once, and only if the coordinator's log decided to commit it.
//	X2  relays of a class are executed in the order of their positions, each once.
//	X3  a vote is final: a party keeps the holds and the vote of a command until it has ordered the outcome.
//	X4  a coordinator keeps a decision until all parties have confirmed that they ordered the outcome.
//	X5  an update that was answered is never executed again, and one answered with ETIMEDOUT never at all.
//	D1-D3 above: the facts that another partition learns by a message are on the disks of a quorum.
package cross
