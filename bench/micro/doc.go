// Package micro repeats the microbenchmark of the thesis (T 3.6.1) on whole replicas in virtual time: the
// highest throughput of each operation and of mixes of local and global ones (Figure 3.4), latency at half
// of it (Figure 3.5), and local work in 1 to 9 regions (Figure 3.6). `globalfs-lab micro` runs it.
//
// # Model
//
// The replicas, their servers and the network are those of package virtual. As in the thesis each
// datacenter also has a machine with two processors for clients, with one mount. An operation keeps a
// processor of that machine busy for the price of the mount's work. Caches of clients are off, as in the
// thesis: a read asks a replica for the extents of the range and a storage node for the block. A write puts
// a block, and then orders its name. A block has two copies in each region of its partition; the first
// server passes it on to the second. Creating a file with 1 KB is a creation and a write.
//
// Prices are the CPU times of server processes and mounts of this repository (Measured). Everything else is
// the code of the product. Networks have no bandwidth, and disks no time: durability is os.
//
// # Measurements
//
// The highest throughput is that of clients in a closed loop, with more and more of them until the
// throughput grows no more. Latency is taken with operations that begin at random moments, at half of that
// rate.
package micro
