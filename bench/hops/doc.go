// Package hops measures the providers of package fabric between two processes of this host. `globalfs-lab
// fabric` runs it.
//
//	hop         half of the time from the post of a write until a write of the peer, which answers to it, is
//	            seen in the own memory
//	completion  the time from the post of a write to its completion
//	writes/s    completed writes, with many outstanding
//	echo        64 bytes to the peer and back over a connection of package rdmaconn; not with provider shm
//
// The minimum and the median tell different things: with other load on the machine, the median has waiting
// for a CPU in it. A spinning reader needs a CPU for each of the two processes.
package hops
