// Package fsck checks the metadata of a cluster: each partition by itself, all together, and the presence of
// the blocks. It changes nothing and repairs nothing.
//
// # Two ways
//
// Online sends requests to a running cluster like any client. It gets a copy of a partition that took a while
// to fetch, and copies of two partitions are of two moments: a first finding may be a change on its way. So
// Online checks again, and reports the findings that occur twice in a row.
//
// Offline opens the data directory of a stopped cluster, and so sees every replica: replicas of a partition
// that have executed the same commands must hold the same bytes. When the cluster stopped, a command of
// several partitions may have been executed in only one of them; the others execute it once the cluster runs
// again. Where that is possible, findings between partitions are marked InFlight. Opening the stores
// completes the writes that were in progress when the cluster stopped, as its next start would.
//
// Both hold the keys of all partitions, or the part that meta.Check needs, in memory.
package fsck
