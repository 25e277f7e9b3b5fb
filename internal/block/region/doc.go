// Package region stores the blocks of one region: its storage servers keep r copies of each block, on
// distinct servers. It is a distributed hash table of one hop: consistent hashing (package ring) assigns each
// block to its owners.
//
// A Node is one storage server. It keeps blocks on its own disk, and is a proxy for the whole region: a
// client sends a request to any server, which executes it on all servers concerned. Remote is the
// block.Store of such a client. Admin reads the state of single servers and changes the members of the
// region. The requests between them are private to this package (wire.go).
//
// The files by purpose:
//
//	proxy.go, together.go, search.go, sync.go   requests of clients: put, put several, get, sync
//	repair.go, handback.go, digest.go, scrub.go repair
//	members.go, membership.go                   the members, and their exchange between servers
//	peers.go, hedge.go                          slow and silent servers
//	remote.go, admin.go                         the clients
//
// # How a region stays whole
//
// Each server knows all Members, and so the whole ring. Members have versions. A server pings the others that
// have been silent. One that has not answered for DownAfter is down. The next servers on the ring stand in
// for it: the keepers of a block are its owners, with those that are down replaced by stand-ins. Each server
// runs three tasks:
//
//   - Pull: a server compares digests with each other server, range by range, of the blocks that both should
//     keep. It fetches those that it lacks.
//   - Hand back: a stray is a block on a server that is not one of its keepers. The server sends the stray to
//     those keepers that lack a copy. It drops its own copy when every owner has confirmed a good copy.
//     While an owner is down, its stand-ins keep their copies. A server that is leaving owns nothing and
//     hands back everything.
//   - Scrub: a server reads all its blocks, slowly. A get or a scrub that finds a bad copy replaces it. A get
//     that finds an owner without its copy puts the copy there later.
//
// So each server with a copy of a block either is a keeper, from which the others pull, or sends the block to
// the keepers: one good copy on a server that answers is enough to restore r copies. When a server takes
// longer than usual to answer a get, the get asks the next server, too. When an owner has not stored a copy
// after an eighth of CallTimeout, the put asks a stand-in, too.
//
// # Why a change of members loses nothing
//
//	M1  Members are totally ordered. The members that a server knows only get newer, through restarts too:
//	    they are saved before they are used.
//	M2  A server drops a copy only by the newest members that it knows, and only if it does not own the block
//	    by them. The members that it knows do not change during the drop.
//	M3  Newer members are given only to a server that is a member already. A server is removed only when it is
//	    drained and all servers know that it leaves.
//	M4  Before a copy is dropped by members m, each owner by m has confirmed, while it knew m or newer
//	    members, that it has a good copy, which it has read. A server confirms nothing to one that knows other
//	    members.
//
// Claim 1: when a server d drops its copy of a block, the block has copies on the owners by some members m, d
// is not one of them, and only faults have removed or can remove those copies before the next drop.
//
//  1. Take all drops of the block up to and including this one, and let m be the newest members by which one
//     of them was done. There is a newest, since members are totally ordered (M1).
//  2. Each owner by m had a good copy while it knew m or newer members. M4 says so for a drop by m.
//  3. No owner by m has dropped that copy. While it knew m it owned the block, so it could not (M2).
//     Afterwards it knew newer members, and could drop only by members newer than m (M1, M2). By step 1 there
//     was no such drop.
//  4. d is not an owner by m. Suppose that it were. By step 2 it has known m or newer members, so it drops by
//     m or newer ones (M1, M2), and by step 1 these are m. But it owns the block by m, so it does not drop it
//     (M2).
//  5. So r other servers (all that stay, if they are fewer) have copies that no server has dropped. Only
//     faults can remove them. This is guarantee B7 of package block.
//
// It follows that no two servers drop relying on each other. Suppose that S drops by v and relies on the copy
// of P, and P drops by v+1 and relies on the copy of S. Then S has confirmed its copy to P while it knew v+1
// or newer members (M4). After that it does not drop by v any more (M1, M2).
//
// Claim 2 (B5 of package block): a block that has a copy at all times is not reported missing, even if it
// moves during the search. A sweep asks all servers for the block. ErrNotFound needs three sweeps in a row in
// which all servers knew the same members m and had no copy.
//
//  1. From its answer in the first sweep until its answer in the third, each server knows m. It knew m at
//     both times, and members only get newer (M1).
//  2. Suppose that no copy is dropped from the end of the first sweep to the end of the second. A server that
//     had a copy at the end of the first sweep still has it in the second and reports it: a contradiction.
//  3. Suppose that a copy is dropped in that time. It is dropped by m (step 1, M2). Each owner by m has
//     confirmed a good copy (M4), keeps it while it knows m (M2), and reports it in the third sweep: a
//     contradiction.
//  4. The copy is not on a server that m does not name. Such a server places blocks by newer members, which a
//     member learned first (M3). That member is asked in the sweeps, and does not know m any more: a
//     contradiction to 1.
//
// # Limits
//
// A block with only bad copies stays, and each scrub logs it. A put restores it, from another region or a
// backup. All servers must have the same number of copies in their configuration. A region with fewer servers
// than that keeps one copy on each.
package region
