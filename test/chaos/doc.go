// Package chaos runs a cluster of real processes on the hosts of a WAN laboratory. The load consists of
// workers that know the expected content of every file, and of a compiler. Meanwhile processes are killed and
// paused, links cut and slowed, disks filled, damaged, rolled back and copied, clocks stepped and etcd
// stopped. Requirements:
//
//   - no acknowledged update is lost, and no byte is wrong: through the mount that wrote it at any time,
//     through all others at the end;
//   - operations fail only with EIO and ETIMEDOUT, as specified in docs/posix.md for soft mounts, and with
//     ENOSPC while a disk is full;
//   - within moments after the end of each fault, every mount can change every partition again.
//
// `make chaos` runs it for a long time.
package chaos
