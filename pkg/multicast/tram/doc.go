// Package tram is TRAM, the atomic multicast of "Scaling atomic ordering in shared memory". Groups form a
// tree, and processes communicate by one-sided writes (package fabric).
//
//		           client         writes m into the inputs of the lca of m.dest
//		             |
//		        lca orders m      its leader writes m into the logs of its members
//		         /        \
//		     group        group   each gets m from its parent, and orders it in its own log
//
//	 1. The client writes a message into the input rings of all members of the lowest common ancestor (lca) of
//	    its destinations.
//	 2. The leader of the lca writes it into the logs of the members. It is decided when a quorum holds it.
//	 3. The group forwards it to the child groups on the way to the destinations, which repeat step 2. Each
//	    destination delivers it at its place in its own log.
//	 4. A new leader of a group gets the right to write the logs of a quorum, which revokes the right of the
//	    former one. It reads these logs, and continues with the entries that may be decided.
//
// Core is stepped like the cores of package multicast. It reads the writes of other processes in its own
// memory, so Input contains completions and proposals, but no messages.
//
// The listings of the paper are missing in the text that we have. Its sections 5.1 to 5.6 describe every
// step; this table has the code for each:
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
//   - Several slots are written at a time. Completions of a queue are in order, so they confirm a prefix.
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
// The processes of the paper stop for ever. Here a process restarts as its next life (Config.Life), with
// zeroed regions (fabric M1).
//
// Other processes learn of the life from its first note. They treat all that they have written to the process
// as lost: they reset their lanes, and write again the entries that are not ordered or applied, and their
// notes (reborn). The process resets each of its queues before the first operation, so that no operation of
// an earlier life is executed afterwards (fabric Q5).
//
// In mode sync (Config.Sync) each step has one gate: its records are on disk before rights change and
// operations leave. The records are the promises of the process, and each entry of its log with its
// timestamp (journal.go).
//
//	S1  A member reports to its leader up to which entry it has stored the log (note.stored), together with
//	    the timestamp for which that is true. It stores only entries with the timestamp that it has promised.
//	S2  A leader counts the reports of members, including its own. Entries that are only in the memory of a
//	    member do not count. So a decided entry, and all entries before it, are on the disks of a quorum with
//	    the timestamp of one leader.
//	S3  A restarted member has the entries and the promise that it has reported, also in its memory
//	    (restore). For G1 to G7 it is a member that was slow. It leads only with a new timestamp, and a grant
//	    names the life to which it was given: an answer to an earlier life does not count (G1). If a slot has
//	    an entry, the earlier entry of the same slot is decided (wasApplied).
//	S4  A member records an entry before it applies it (secure). So its log contains all that its state
//	    machine contains, which determines the positions of inputs and children.
//	S5  A process numbers the messages of a new life in each input from firstOf on. An entry that an earlier
//	    life has written into the inputs of some members is ordered before them or never.
//
// In mode memory nothing is recorded, and messages are delivered one hop earlier. A restarted process has
// lost its memory: amnesia.go has the rules and the proof.
//
// A member whose log ends before the entries that the others keep (Config.Keep) needs the state of another
// member (Output.Behind, State, Adopt). It adopts the positions, the entries that the others keep, and those
// that the child groups have not ordered. It keeps its promise and its entries after the state, which count
// as before. A child group gets the same slots from it, because the positions are a function of the log.
//
// Another machine can take over the seat of a process, as a new life without memory (Seat). Each process that
// learns of the seat revokes the rights of the former node and grants them to the new one. The former process
// may still run. For processes that do not know of the seat it is a slow member; the others have cut it off.
// The new process has no vote until a leader has begun that knows of the seat. From then on no quorum gives a
// vote to the former process (L6). So only one of both processes has a vote, and the proof of amnesia.go
// holds, although the former life continues.
//
// # Omissions
//
// A message must fit into a slot. Proposals that wait for room are kept without a limit. The number of
// members is fixed. The tree changes at a barrier only (barrier.go): behind it a new order begins.
package tram
