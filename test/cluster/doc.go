// Package cluster runs a whole cluster in the same way as an operator, for tests and benchmarks: etcd,
// certificates, one process of the real binary for each server, and mounts. The processes are on loopback, or
// on the hosts of a WAN laboratory (package wan). Each can be killed, paused and started again. Embedded is
// the same in one process. No process outlives Close; the logs of the processes are in files of their
// directory.
package cluster
