// Package mount is the FUSE adaptor: it decodes what the kernel asks, calls the client and
// encodes the answer. It is the only importer of go-fuse, whose raw interface it serves: a FUSE node id
// is an inode number, and inode numbers are never used again, so there is no table of nodes.
//
// # What the kernel does
//
//   - permissions: default_permissions; the kernel checks them against the attributes it has;
//   - caching: names and attributes are believed for Config.CacheTime, names that do not exist not at all;
//     another mount's change is thus seen at the latest after that time, and at once by an open.
//     The pages of a file are dropped when it is opened and when its size or time of
//     modification is seen to have changed;
//   - writes reach the file system before write(2) returns: there is no write-back cache, fsync and close have
//     nothing left to do;
//   - flock and fcntl locks hold between the processes of one mount only.
//
// A stale node, of an inode that is gone, gives ESTALE: the kernel then looks the name up
// again.
package mount
