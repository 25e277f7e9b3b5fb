// Package power runs a cluster of server processes on disks that lose unsynced data (package lossy), cuts the
// power of servers during work, and compares the data. PrimCast or TRAM orders the partitions.
package power
