// Package turn is the contract between a node and the program that steps it. A node is a deterministic core
// with its state machine: a replica (package replica), or a protocol process of bench/process. The program
// that steps a node is called its stepper: package driver in real time, package sim in virtual time, and
// package clienttest in tests of clients. A node cannot distinguish them.
//
// # A turn
//
//  1. The stepper fills an Input with all ready events and the time, and calls Step.
//  2. The replies in Output.Replies leave at once, since they depend on no record of this step. The frames in
//     Output.Early leave once the records of all earlier steps are durable.
//  3. The stepper makes Output.Records durable, in the order of the steps. If Output.Sync is set, it also
//     syncs the log. Then the replies in Output.Persisted leave.
//  4. Rights to one-sided memory change, operations on the memory of peers begin, and Output.Frames leave.
//  5. Apply executes the deliveries of the step and returns further replies.
//
// A stepper may begin the next turns with steps 1 and 2 before step 3 of this turn has ended. It calls Apply
// once for each Step, in the order of the steps, even if a step delivered nothing.
//
// # Why this package is on floor 3
//
// A Call names its client by an ask.Client, so this package is above package ask. With an interface in
// Call.From this package could be on a lower floor, but each node would have to assert the type. A nil client
// is one of the cluster's own processes, which may do everything. So a failed assertion would grant all
// rights. The static type excludes this error.
package turn
