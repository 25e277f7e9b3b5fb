// Package posix has only tests: they run the real binary with a real mount, and use it from outside like
// users, with the test programs that other file systems use. They need /dev/fuse, root, and for some of them
// pjdfstest, fsx and a C compiler (deploy/deps.sh test installs these). Tests with a missing requirement are
// skipped, with the reason.
//
// docs/posix.md lists the known failures of pjdfstest with their reasons. The test reads the list from
// there. With -posix.delegate the mounts hold the directories that they make. TestTram has a cluster of
// processes, in which TRAM orders all partitions.
package posix
