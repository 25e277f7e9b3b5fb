// Package backup saves the metadata of all partitions at one consistent cut, and the blocks of their files,
// in a repository, and makes the data of a new cluster from it (thesis section 3.4.3 discusses recovery of
// single replicas only).
//
// # How a backup is made
//
//  1. Each partition is asked for its marker, with the number of the backup. Packages order and replica make
//     the number travel with all that partitions tell each other and their clients; package cross proves that
//     the saved states are a consistent cut. Nothing waits: a replica takes an iterator snapshot of its
//     store.
//  2. The state of each partition is read from one of its replicas.
//  3. The state is cut into chunks by key ranges, which depend on the keys alone. A chunk is stored under its
//     hash, so a later backup stores only the ranges that have changed.
//  4. Each block that the restored states would name is copied, if the repository lacks it. Partitions hold
//     the collection of blocks until then, and the program repeats the hold.
//  5. The manifest is written last. A backup without a manifest does not exist. What an interrupted backup
//     has stored is used by the next one.
//
// # Repository
//
//	chunks/HH/HASH     a range of keys: for each key its length, the key, the length of its value, the value
//	blocks/HH/ID       a block: the SHA-256 of the data, the data
//	backups/ID.json    the manifest, with its own SHA-256
//
// # Restore
//
// The states are put into stores, commands of several partitions are ended, and sessions are removed
// (replica.Refound). Each server gets the stores of its replicas. The same backup gives the same bytes on
// each host. The new cluster has a new identity, and its partitions begin new histories.
package backup
