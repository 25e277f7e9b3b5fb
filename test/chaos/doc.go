// Package chaos runs a cluster of real processes on the hosts of a WAN laboratory, under a load that knows
// what every file must hold and under a compiler, while processes are killed and paused, links cut and
// slowed, disks filled, rotten and rolled back, the clock stepped and etcd stopped. What it demands:
//
//   - no acknowledged update is lost, and no byte is wrong: through the mount that wrote it at any time,
//     through all others at the end;
//   - operations fail with EIO and ETIMEDOUT at most, as docs/limits.md says of soft mounts, and with ENOSPC
//     while a disk is full;
//   - within moments after the end of each fault, every mount can change every partition again.
//
// `make chaos` runs it for long.
package chaos
