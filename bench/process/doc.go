// Package process measures the multicast protocol as it is shipped: one operating system process for each
// replica, with the driver, the write-ahead log and links over loopback.
//
// A parent (Run, Kill) starts this program again for each replica. The child (Replica) exchanges JSON lines
// with the parent over its standard input and output, and ends when its input does. Clients are closed loops
// in the processes of the groups' primaries, as in the measurements of the prototypes that the results are
// printed beside. The state machine (node) only counts and checks: positions ascend, no message comes twice,
// and a digest of the order serves to compare processes.
package process
