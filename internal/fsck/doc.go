// Package fsck checks the metadata of a cluster: each partition by itself, all together, and the presence of
// the blocks. It changes nothing and repairs nothing.
//
// # Two ways
//
// Online sends requests to a running cluster like any client. To fetch the copy of a partition takes time,
// and the copies of two partitions have different ages. So a first finding may be a change in progress.
// Online repeats the check, and reports only the findings of two successive checks.
//
// Offline opens the data directory of a stopped cluster, and so sees every replica: replicas of a partition
// that have executed the same commands must hold the same bytes. When the cluster stopped, a command of
// several partitions may have been executed in only one of them; the others execute it once the cluster runs
// again. Where that is possible, findings between partitions are marked InFlight. Opening the stores
// completes the writes that were in progress when the cluster stopped, as its next start would.
//
// Both ways hold in memory the keys of all partitions, or the part of the keys that meta.Check needs.
package fsck
