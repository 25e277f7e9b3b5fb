// Package storage runs the storage servers of a region as separate processes, over TCP, on real disks, while
// clients put, get and delete. It causes faults of two servers at a time, with three copies of each block:
// SIGKILL, SIGSTOP, lost disks, inverted bits in segments and in the index, and a full disk. Servers join and
// leave. Every acknowledged block is read back correctly, repair ends, and in the end each block has exactly
// three intact copies, on its owners.
//
//	go test ./test/storage -v                                   # a few rounds
//	go test ./test/storage -v -storage.rounds=100               # for long
//	go test ./test/storage -v -storage.seed=7                   # the faults of one run
package storage
