// Package objects stores blocks in S3-compatible object storage. It is a block.Store for users with such a
// storage that do not want to run a DHT (thesis 3.5.4: any key-value store will do). It is the only importer
// of the client library.
//
// # Format
//
// Each block is one object. Its key is the prefix, a slash if there is a prefix, and the block's id in 32
// hexadecimal digits. The order of keys is that of ids, so a range of blocks is listed page by page without a
// sort. There is no hash in front of the key. S3 bounds the rate of requests by range of keys (3,500 puts and
// 5,500 gets a second each) and splits busy ranges. Ids begin with partition and session, so that each client
// writes in a range of its own: one client would have to write 3.5 GB/s to reach the bound.
//
// An object is 8 bytes, then the block:
//
//	0  4  "GBO1"
//	4  4  CRC32C of id and data, little endian
//	8     data
//
// The checksum is in the object and not in its metadata, so that every tool that copies a bucket also copies
// the checksum.
//
// One more object, "cluster" under the same prefix, names the cluster of the blocks. Two clusters have blocks
// with the same ids. So a cluster is refused if the prefix belongs to another cluster, or if the bucket
// should have its blocks and does not.
//
// # Guarantees
//
// The numbers are those of package block.
//
//	B1  The checksum is verified by each Get. An upload carries a CRC32C of the whole object. The server
//	    verifies the received bytes with it before it stores them (servers that do not know it ignore it).
//	B2  A put is conditional (If-None-Match: *). If the object is there it is read: the same bytes are a
//	    success, other bytes ErrConflict, and a bad copy is replaced. Servers without conditional puts are
//	    recognised by Open. On them each put reads first, and of two puts of one id at the same time the last
//	    stands: writers never do that, since no other client uses their ids.
//	B3  The object storage is responsible for copies and durability.
//	B4  A put that failed may have stored the object, whole: S3 shows no partial objects.
//	B5  ErrNotFound is a 404 of the object storage for this key. A 404 of another server, for example a proxy,
//	    is another error. A server that does not answer, or reports that it is overloaded, is ErrUnavailable
//	    after some tries within Config.Timeout.
//	B6  Delete of an absent block succeeds. In a bucket with versions a delete only hides the object: give
//	    such a bucket a lifecycle rule that removes old versions.
package objects
