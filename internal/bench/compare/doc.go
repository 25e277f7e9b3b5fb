// Package compare measures the same work in several directories in one run: mounts, local disks and loopback
// FUSE. It is the work behind `globalfs bench mount`.
//
// A run has rounds. In each round, for each number of clients, each measure runs in one directory after the
// other, so that a disturbance of the machine meets all directories alike. The time of a measure includes a
// barrier: fsync of all directories that the work has touched, and syncfs. Before each measure all file
// systems of the machine are synced, outside of the time.
//
// Each directory gets a working directory of its own, which is removed at the end, also after an error and
// after the end of the context. Each client works in a subdirectory of its own, since the kernel serialises
// changes in one directory.
package compare
