// Package heron is Heron, the partitioned state machine replication of "Heron: Scalable State Machine
// Replication on Shared Memory". It replicates any deterministic application (Application). Each group of
// processes is a partition and holds objects. Requests arrive in the order of an atomic multicast, such as
// package tram. A request to several groups is executed by all of them: each process reads the remote objects
// that it needs by one-sided reads (package fabric), and writes objects of its own group only. A process that
// cannot read the values of the time of a request is called a lagger, and takes over the state of another
// member.
//
// A Core is one process, and is stepped like the cores of package multicast. It executes one request at a
// time.
//
// # The paper's algorithms
//
//	Algorithm 1, coordination
//	  2-4    skip what a transfer has covered       core.go: next
//	  5-7    a request to one group                 core.go: next, execute
//	  8-11   phase 2: all have reached the request  coordinate.go: enter, gathered
//	  12-14  execute                                core.go: execute
//	  15-20  phase 4: all have executed it          coordinate.go: left
//	  21     answer                                 core.go: finish
//	Algorithm 2, execution
//	  2-7    the owner of an object, local reads    fetch.go: begin; objects.go: newest
//	  8-13   the address of an object               fetch.go: ask, answer
//	  14-19  a process that has coordinated         fetch.go: candidate, read
//	  20-21  a failed read                          fetch.go: Failed
//	  22-28  the newest value before the request    slot.go: before
//	  29-31  write, over the older version          objects.go: set
//	Algorithm 3, state transfer
//	  2-4    the request for help                   transfer.go: lag
//	  5-6    the end                                transfer.go: install
//	  8-11   the choice of a helper                 help.go: serve
//	  12-17  the objects that the lagger needs      help.go: collect
//	  18-22  the next helper after a timeout        help.go: serve
//
// # Differences from the paper
//
//   - Timestamps. The paper needs one timestamp for a request in all groups. Package tram gives a place in
//     the log of each group. So versions carry the place in the log of their own group, and a process of
//     group h sends the readers its place of the request in phase 2.
//   - Coordination. The paper compares timestamps of the latest request of a process. Here each pair of
//     groups counts its common requests; by uniform prefix order both groups give a request the same number.
//     A process that is past the request counts in both phases. In line 11 of the paper it does not, so a
//     process that is late could wait for ever.
//   - The choice of a version. The paper takes the higher version below the request. Fabrics promise no order
//     within a read (fabric M2), so a read can find an old first version beside a second one that is two
//     writes younger, and the paper's rule would return a stale value. Here a version names its predecessor
//     and has a checksum: see the argument V3 below.
//   - Addresses. All members of a group give an object the same slot, because they create objects in the same
//     order. One answer of a process that has coordinated suffices, in place of a majority's.
//   - State transfer. A helper writes into a buffer of the lagger, never into its objects: a suspected helper
//     that wakes up late could overwrite newer objects otherwise. A helper may serve in the middle of a
//     coordination: see T3.
//
// # Why it is correct
//
// Let r be a request, and place(r, h) its place in the log of group h.
//
//	C1  Phase 2: before p reads from q of group h, q has reported a number of common requests that is at least
//	    that of r. So q has executed, or taken over, all requests of h before r.
//	C2  Phase 4: p executes its next request after a quorum of each group of r has executed r, or is past
//	    it.
//	V1  A slot has two versions. A write goes over the older one, after its tag and checksum have become
//	    invalid for readers. Tags ascend.
//	V2  A version w names in prev the tag of the version that was the newest before w.
//	V3  p takes a version v with a valid checksum and tag(v) < place(r, h) if the other version w is valid,
//	    and either tag(w) < tag(v) or prev(w) = tag(v). In the first case, w had not been written over
//	    between the write of v and the read of w: each write over w after v has a higher tag than v. By C1
//	    all writes before r were done before the read began, so v is the newest version before r. In the
//	    second case w is the successor of v. If tag(w) >= place(r, h), v is the newest before r; otherwise w
//	    itself is taken. If w is not valid, it is being written: p reads again.
//	V4  If both versions are valid and V3 permits neither, q is past r, or has taken over a state past r.
//	    Then a quorum of each group of r has executed r (C2), p is not among them, and p is a lagger. The
//	    same holds if no member of h reports the place of r: all that have reached r are past it.
//	T1  A lagger at r asks for the state after a request at or after r. A helper qualifies if it has
//	    executed a request at or after r in its group's log.
//	T2  The transfer has all objects written at or after place(r, g), the slots, the counts of common
//	    requests, and the place of the last executed request. The lagger installs it at once or not at all.
//	    Then it skips deliveries up to that place: its state is that of the helper.
//	T3  A helper that coordinates for a later request sends its state before that request, with the counts
//	    before it. Without this, a lagger whose answer the helper's coordination needs would wait for ever.
//	L   A quorum of each group runs for ever. By V4 and C2 a member that qualifies is among them (T1), so
//	    each transfer to a lagger ends; by C2 each phase ends.
//
// Linearizability follows as in section III-C of the paper: by C1 and V3 the reads of r return the state
// after all requests before r, and by C2 no request is answered before all groups have reached it.
//
// # Bounds
//
// All state is in memory; a process that stops stays away, as in package tram. A group holds at most
// Config.Objects objects of Config.ObjectSize bytes. Objects are never removed. The content of remote memory
// is untrusted: malformed content is counted and ignored.
package heron
