// Package objects keeps blocks in S3-compatible object storage: a block.Store for users who have such a
// storage already and would rather not run a DHT of their own (thesis 3.5.4: any key-value store will do). It
// is the only importer of the client library.
//
// # What is stored
//
// Each block is one object. Its key is the prefix, if there is one a slash, and the block's id in 32
// hexadecimal digits: the order of keys is that of ids, so a range of blocks is listed page by page without
// being sorted here. Nothing is hashed in front of the key. S3 bounds the rate of requests by range of keys
// (3,500 puts and 5,500 gets a second each) and splits ranges that are busy; ids begin with partition and
// session, so that each client writes in a range of its own, and one client would have to write 3.5 GB/s to
// reach the bound.
//
// An object is 8 bytes, then the block:
//
//	0  4  "GBO1"
//	4  4  CRC32C of id and data, little endian
//	8     data
//
// The checksum is inside of the object rather than beside it in its metadata, so that it comes along when a
// bucket is copied, by whatever tool.
//
// One more object, "cluster" under the same prefix, names the cluster whose blocks these are: two clusters
// have blocks with the same ids, so one that would share a prefix with another is refused, and so is one that
// was led to a bucket without its blocks.
//
// # What it guarantees
//
// The numbers are those of package block.
//
//	B1  The checksum is verified by each Get. An upload carries a CRC32C of the whole object, with which the
//	    server checks what has arrived before it stores it (servers that do not know it ignore it).
//	B2  A put is conditional (If-None-Match: *). If the object is there it is read: the same bytes are a
//	    success, other bytes ErrConflict, and a bad copy is replaced. Servers without conditional puts are
//	    recognised by Open. On them each put reads first, and of two puts of one id at the same time the last
//	    stands: writers never do that, since ids are theirs alone.
//	B3  Copies and durability are the business of the object storage.
//	B4  A put that failed may have stored the object, whole: S3 shows no partial objects.
//	B5  ErrNotFound is a 404 that the object storage says of this key. A 404 of something else, a proxy say, is
//	    another error. What does not answer, or says that it is overloaded, is ErrUnavailable after some tries
//	    within Config.Timeout.
//	B6  Delete of what is not there succeeds. In a bucket with versions a delete hides the object only: give
//	    such a bucket a lifecycle rule that removes old versions.
package objects
