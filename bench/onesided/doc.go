// Package onesided measures TRAM on one-sided memory in virtual time, beside message-passing protocols of
// package ordering. `globalfs-lab tram` runs it.
//
// There are 8 groups of 3 with a closed-loop client beside each replica. A client multicasts to its own group
// and to others at random, and has a fixed number of messages outstanding. Latency is from the proposal to
// the delivery at the client's own replica. Everything is in memory: no figure includes a disk.
//
// A process of TRAM has one CPU: a step costs Cost.Step, and Cost.Op for each operation posted and each
// completion taken. An operation takes the latency of the fabric in each direction. These prices are stated,
// not measured, and equal seeds give equal figures. The message-passing protocols run as `globalfs-lab
// multicast` runs them in its LAN, with the prices of system calls and TCP that are stated there. The
// difference between both contains the medium as much as the protocol, as in Figure 9 of the paper.
//
// The trees are a binary tree (base), a root with all other groups below it (breadth), and a chain (depth).
// The paper's Figure 4 is missing from the text, so its trees may differ.
package onesided
