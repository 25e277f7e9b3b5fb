// Package turn is the contract between a node and the program that steps it. A node is a pure core with its
// state machine: package replica, or a protocol of bench/process. Package driver steps nodes in real time,
// package sim in virtual time, and package clienttest for the tests of clients. A node cannot tell which one
// steps it.
//
// # A turn
//
//  1. The stepper fills an Input with everything that is ready, reads the clock, and calls Step.
//  2. The replies in the Output leave at once: nothing that they say depends on the step's records.
//     So do the frames in Output.Early, once the records of all earlier steps are durable.
//  3. The stepper makes Output.Records durable, in the order of the steps. With Output.Sync it also syncs the
//     log; then the replies in Output.Persisted leave.
//  4. The rights to memory change, operations on the memory of others begin, and the frames leave. Then
//     Apply executes the deliveries of the step and returns further replies.
//
// A stepper may take steps 1 and 2 of the next turns before step 3 of this one has ended. It calls Apply once
// for each Step, in the order of the steps, also if the step delivered nothing.
//
// # Why this package is on floor 3
//
// A Call names its client by an ask.Client, so this package imports package ask and is above it. An interface
// or an opaque value in Call.From would allow a lower floor, but every node would have to assert the type. A
// nil client is one of the cluster's own processes and is not bounded by any authority: a failed assertion
// would grant everything. The compiler excludes that mistake.
package turn
