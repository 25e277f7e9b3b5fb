// Package block defines the immutable data blocks of files (thesis 3.5.4): Block, the Store interface, and
// the errors that callers decide on. It also has two stores that wrap stores. Cached keeps blocks in memory.
// Nearest writes to several regions and reads from the nearest one. The other stores have packages of their
// own:
//
//	region     the storage servers of a region: Node is one of them, Remote is the Store that reaches them
//	disk       the blocks of one server, in segment files with an index
//	diskcache  blocks on the disk of a client
//	objects    blocks in S3-compatible object storage
//	segfile    the format of segment files, which disk and diskcache share
//	ring       the owners of a block, by consistent hashing
//
// A block has an id that names the same 1 byte to 1 MiB for ever. This makes the rest simple: copies need no
// coordination, any good copy is the right one, a put may be repeated, and a cache needs no invalidation.
//
// # Guarantees
//
//	B1  Get returns the bytes that were put, or an error: never other bytes. Every block has a CRC32C over its
//	    id and its bytes. New computes it in the process that makes the block. It is verified by each read
//	    from a disk and each time that the block crosses a wire.
//	B2  Put of a block that is present has no effect, unless the copy is bad: then Put replaces it. Put of
//	    other bytes under the same id returns ErrConflict.
//	B3  A put that a region acknowledged has r copies on distinct servers, each as durable as the
//	    configuration of its server says. The copies are on the owners, which are in distinct datacenters if
//	    there are enough. An owner that cannot take its copy is replaced by the next server on the ring.
//	B4  A put that failed may have left copies on one or several servers. They are good copies, or nothing. A
//	    failed put may be repeated anywhere.
//	B5  ErrNotFound from a region means that each of its servers was asked. If one could not be asked, the
//	    error is ErrUnavailable.
//	B6  Delete removes all copies on the servers that can be reached, and returns an error if one cannot.
//	    Copies that move from one server to another at the same time, and copies on a server that was away,
//	    come back: they are garbage, and are deleted again.
//	B7  As long as a block has lost fewer than r copies since it had r good ones on its owners, it has a good
//	    copy, even if servers crash, return, join or leave meanwhile. When all servers answer again, it has r
//	    good copies on its owners and no others, after some repair rounds and one scrub.
//
// Packages region and disk document how they keep B1 to B7, and package objects how it keeps B1 to B6. The
// stores of clients preserve them. Nearest asks the other regions before it reports that a block is missing
// or corrupt, and puts the block where it was missing. Cached and diskcache return deleted blocks until they
// evict them.
//
// # One frame for each put
//
// New copies the bytes of a block once, behind its id and checksum, as the request that a region understands
// (Block.Frame). A put passes that copy to all stores below it. Cached keeps the copy, diskcache writes it
// with the same checksum, and Nearest sends it to all regions. So a put costs one copy and one checksum in
// the client, however many regions store the block.
package block
