// Package fsck checks the metadata of a cluster: each partition by itself, all together, and that the
// blocks are there. It changes nothing and repairs nothing.
//
// # Two ways
//
// Online asks a running cluster as any client does. What it sees of a partition is a copy that took a while
// to fetch, and copies of two partitions are of two moments: what it finds at first may be a change
// on its way. So it looks again, and reports what it has found twice in a row.
//
// Offline opens the data directory of a cluster that has stopped, and so sees every replica: replicas of a
// partition that have executed the same commands must hold the same bytes. A command of several partitions
// may have been executed in one of them only when the cluster stopped; it will be in the others once the
// cluster runs again. Where that is possible, findings between partitions are marked InFlight. To open the
// stores finishes what they were writing when the cluster stopped, as its next start would.
//
// Both hold the keys of all partitions, or what meta.Check needs of them, in memory.
package fsck
