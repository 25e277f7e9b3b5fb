// Package geo measures the thesis' micro benchmark (T 3.6.1) on real server processes, and on the embedded
// cluster for comparison: on loopback, without delays of packets, and in the WAN laboratory (package wan), on
// hosts with the delays between the regions. All settings run at the same time and take turns in short
// rounds, so that other work of the machine affects all of them alike; waiting settings cost next to nothing.
//
// The load generator of a mount is a separate process, too (Serve): no other computation shares the process
// of the laboratory.
//
// With Config.Profile it also takes CPU profiles of all processes during creates, and divides the cost of one
// create among the areas of the code.
package geo
