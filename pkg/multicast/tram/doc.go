// Package tram is TRAM, the atomic multicast of "Scaling atomic ordering in shared memory": groups form a
// tree, and processes communicate by one-sided writes (package fabric). A message is ordered first by the
// lowest common ancestor (lca) of its destinations, and then by each group on the way down. The leader of a
// group orders by writing into the logs of the members, and loses the right to do so when another one takes
// over.
//
// Like other cores, Core is stepped (package multicast). It looks for the writes of others in its own memory,
// so Input has completions and proposals only.
//
// The paper's listings are missing from the text that we have. Sections 5.1 to 5.6 describe every step:
//
//	5.1  data structures               wire.go; input: regions clientRegion and parentRegion, log:
//	                                   logRegion, propose and answer: note.ask and note.promised
//	A1   the client                    propose, flow, pump
//	A2   becoming leader               watch, stand, campaign
//	     finding a message             order, take, input
//	     ordering messages             take, replicate, decide
//	     leader message delivery       rule, apply
//	     forwarding to children        apply, forward, pump
//	     followers message delivery    follow
//	     checking permissions          grant
//	A3   proposing a timestamp         stand, campaign
//	     waiting, checking             campaign, granted
//	A4   reading remote logs           campaign
//	     checking timestamps           catchUp, highestEntry
//	     replicating log entries       replicate, as for new entries
//	     handle delivery, moving on    decide, apply
//	A5   updating input pointers       positions: they are a function of the log
//	     multicast logic               flow: entries are kept until the child has ordered them
//	     re-replicating on children    forward
//
// # Guarantees
//
// Validity, uniform integrity, uniform agreement, uniform prefix order and uniform acyclic order, as in
// package multicast, as long as a majority of each group runs and remembers; in mode sync also after all
// processes have stopped. There is no final timestamp: Delivery.Final is
// the place in the log of the group, and other groups have another one. TRAM is partially genuine: a message
// to one group concerns its sender and this group alone; one to several groups concerns all groups on the
// ways from the lca to them. A group on such a way that does not work holds up all that passes it.
//
// # Differences from the paper
//
//   - Several slots are written at a time. Completions of a queue are in order, so they tell a prefix.
//   - Followers deliver by a commit word, so that an idle group delivers. It is written when it has grown.
//   - Buffers are rings. A slot of a log is used again when its member has applied the entry; a slot of an
//     input when the group has ordered the message. Notes carry both credits.
//   - A group has one input for each member of its parent, with equal contents, instead of one for the
//     parent: delayed writes of an earlier leader cannot overwrite the entries of its successor. So any
//     member may forward. A follower forwards if a child does not take for SuspectAfter the entries that the
//     follower has applied: no leader is replaced for that.
//   - The canary is a checksum, since fabrics promise no order within a write (fabric M2).
//   - Nobody watches an idle leader. Members find work in their own memory, since clients and parents write
//     to all of them, and replace the leader if the work waits for SuspectAfter without progress.
//
// # Why it is safe
//
//	G1  Of a slot, a leader writes one value only, and a timestamp belongs to one leader.
//	G2  A member that has granted a timestamp takes no write with a lower one: the right goes before the
//	    answer (fabric M3), and Output.Rights come before Output.Ops.
//	G3  A member is asked for a timestamp only when nothing that the candidate has posted to its log before
//	    can land any more. Otherwise a write with an older right could land with the new one.
//	G4  A slot is decided when a quorum holds it with the timestamp of one leader, together with all slots
//	    before (fabric Q1, Q3). A new leader reads a quorum, so it finds each decided slot with the highest
//	    timestamp that any member has for it. Hence a slot that is empty in all of the logs is not decided,
//	    nor is anything behind. An entry that was ordered behind another prefix than the one found is not
//	    decided either: if it were, that prefix would be decided, too. The new leader cuts the log there.
//	    Without the cut, the message of such an entry could be in the log twice.
//	G5  The commit word of a member covers only entries that were posted to this member before. Hence an
//	    entry that a follower finds below it is the decided one.
//	G6  To write an entry again changes nothing but its timestamp, which is written at once (wire.go). A
//	    leader that stops while it does so damages no entry that an earlier quorum holds.
//	G7  A member grants only if its log holds all entries that it has applied and the candidate has not: a
//	    candidate with a quorum can continue the log of each member of it.
//
// The simulator runs the core with all faults of a fabric; TestOverSoft runs it on TCP connections.
//
// # Restarts
//
// The paper's processes stop for ever. Here a process comes back as its next life (Config.Life), and its
// regions are zeroed then (fabric M1).
//
// Others hear of the life in its first note. They treat all that they have written to it as lost: they reset
// their lanes, and write again what is not ordered, applied or said (reborn). The process resets each of its
// queues before the first operation, so that none of its earlier lives lands any more (fabric Q5).
//
// In mode sync (Config.Sync) each step has one gate: its records are on disk before rights change and
// operations leave. The records are the promises of the process, and each entry of its log with its
// timestamp (journal.go).
//
//	S1  A member tells its leader up to where it has stored the log (note.stored), and in the same note the
//	    timestamp for which that is true. It stores entries with the timestamp that it has promised only.
//	S2  A leader counts what members say that they have stored, itself included. What is only in the memory
//	    of a member counts for nothing. So an entry that is decided is on the disks of a quorum, with the
//	    timestamp of one leader, together with all before it.
//	S3  A member that has restarted has the entries and the promise that it had told of, in its memory too
//	    (restore). For G1 to G7 it is a member that was slow. It leads only with a new timestamp, and a
//	    grant names the life that it was given to: an answer to an earlier life counts for nothing (G1).
//	    An entry in a slot that an earlier one had shows that the earlier one is decided (wasApplied).
//	S4  Before a member applies an entry it has recorded it (secure). So its log has all that its state
//	    machine has, and the positions of inputs and children follow from it.
//	S5  A process numbers the messages of a new life in each input anew (firstOf). Entries that an earlier
//	    life has written into the inputs of some members is ordered before them or never.
//
// In mode memory nothing is recorded, and the delivery is one hop faster. A process that restarts has lost
// its memory: amnesia.go has the rules and the proof.
//
// A member whose log ends before the log that others keep (Config.Keep) needs the state of another member
// (Output.Behind, State, Adopt). It adopts the positions, the entries that the others keep, and what the
// child groups have not taken. It keeps its promise and the entries behind the state, which count as before.
// A child group gets the same slots from it: the positions are those of the log.
//
// Another machine takes the seat of a process over as a new life without memory (Seat). Each process that
// hears of it takes the rights of the node before, and gives them to the new one. The process before may
// still run. It is for the others a member that was slow until they hear of the seat, and cut off afterwards;
// the new one has no vote until a leader has begun that knows of it. From then on a quorum gives no vote to
// the process before (L6). So one of both has a vote, and the proof
// of amnesia.go holds: that the life before goes on, unheard, changes nothing.
//
// # Omissions
//
// A message must fit into a slot. Proposals that wait for room are kept without a limit. The number of
// members is fixed. The tree changes at a barrier only (barrier.go): behind it a new order begins.
package tram
