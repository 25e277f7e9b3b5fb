// Package posix has only tests: the real binary with a real mount, tried from outside as users
// do, with the testers that other file systems are judged by. They need /dev/fuse, root, and for
// some of them pjdfstest, fsx and a C compiler (deploy/deps.sh test installs these); what is
// missing skips the tests that need it, with the reason.
//
// Failures of pjdfstest that are known are listed, with reasons, in docs/limits.md: the test reads the
// list from there.
package posix
