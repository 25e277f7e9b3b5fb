// Package geo measures the thesis' micro benchmark (T 3.6.1) on real server processes, beside the same on the
// embedded cluster: on loopback, where nothing delays a packet, and in the WAN laboratory (package wan), on
// hosts with the delays between the regions. All settings run at the same time and take turns in short
// rounds, so that what else the machine does meets all of them alike; those that wait cost next to nothing.
//
// Whoever loads a mount is a process of its own too (Serve): the laboratory shares its process with nobody
// who computes.
//
// With Config.Profile it also takes CPU profiles of all processes while files are made, and says what one
// create costs where.
package geo
