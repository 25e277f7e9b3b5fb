// Package cluster runs a whole cluster as an operator would, for tests and benchmarks: etcd, certificates,
// one process of the real binary for each server, and mounts. The processes are on loopback, or on the hosts
// of a WAN laboratory (package wan). Each can be killed, paused and started again. Embedded is the same in
// one process. Nothing outlives Close; what the processes said is in files of their directory.
package cluster
