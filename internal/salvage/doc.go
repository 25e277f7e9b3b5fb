// Package salvage recovers a cluster in which partitions have lost the majority of their replicas for ever
// (docs/recovery.md). It reads the data directories that are left of the stopped servers, and makes one sound
// state of all partitions. Package backup puts that state into a repository, and `globalfs restore` makes a
// new cluster of it.
//
// # Why all servers stop
//
// A recovery of one partition while the others run would be unsound in the order between partitions. Let g be
// the partition, p its survivor, and m a message to g and another partition h.
//
//  1. A quorum of g without p may have acknowledged a timestamp of m, and h may have delivered m with it.
//  2. p proposes m again, with another timestamp. So g delivers m at another position than h.
//  3. Positions of the classes tell each party which commands have ended (package cross). With two positions
//     for one message, a party would take an open command for an ended one.
//
// An adoption of the survivor's log, as after a loss of power (package primcast, A2), is therefore not
// enough: A2 is about a partition whose synced entries are all there. The order between partitions has to
// begin anew at all partitions, and the tree of all partitions is to be reconciled before any of them
// executes a new command. Both are done while no server runs.
//
// # Which state counts
//
//  1. Of the surviving logs of a partition, the one with the highest epoch, and the longest in it, counts, as
//     in a change of the primary (line 66 of PrimCast). All its entries are executed.
//  2. If a quorum of the members is among the survivors, and has lost no records, the log has all entries
//     that were ever acknowledged (Lemma 3, R1, A2). The partition loses nothing.
//  3. Otherwise the partition is short: it may lack entries that only the missing members have. All entries
//     that the survivor has executed are in its log, so the state is one that the partition has had, followed
//     by entries that were proposed and perhaps not acknowledged. An operator accepts the loss by name.
//  4. A log may have lost records itself: after a loss of power with durability os, or by a rollback of its
//     directory. Its member has no vote in 2, and its log is used like the others in 1.
//  5. A partition without any surviving replica takes its state from a backup of the cluster. It is short,
//     too: the state is one that the partition has had.
//
// # Other partitions
//
//  6. Commands of several partitions end alike at all parties, or are reported: package cross, S1-S4.
//  7. One sound tree is made, and each change is reported: package meta, J1-J6. The result is checked.
//  8. Blocks that no surviving directory has are reported with the files that they belong to.
//
// # Fencing
//
//  9. The new cluster has another identity. A directory of the old one is refused by its owner file (package
//     daemon, D3), also without etcd. So a member that returns counts as a lost disk.
//  10. Histories follow all that any surviving state has seen, and sessions, mounts and tokens of the old
//     cluster are refused. So no client keeps a view of lost updates without an error.
package salvage
