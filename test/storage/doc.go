// Package storage runs the storage servers of a region as processes of their own, over TCP, on real disks,
// and treats them badly: SIGKILL, SIGSTOP, disks that are gone, bits that are flipped in segments and in the
// index, a disk that is full, servers that join and leave, two of them at a time at three copies, while
// clients put, get and delete. Every block that was acknowledged is read back right, repair ends, and in the
// end each block has exactly three good copies, on its owners.
//
//	go test ./test/storage -v                                   # a few rounds
//	go test ./test/storage -v -storage.rounds=100               # for long
//	go test ./test/storage -v -storage.seed=7                   # the faults of one run
package storage
