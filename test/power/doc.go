// Package power runs a cluster of server processes on disks that lose unsynced data (package lossy), cuts the
// power of servers during work, and compares the data: with PrimCast and with TRAM as the order of the partitions.
package power
