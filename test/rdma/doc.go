// Package rdma runs the tests that need RDMA: those of build tag verbs. They run on a device of this machine,
// or, with RDMA_VM=1, in a virtual machine with soft-RoCE devices by the program rdma-vm (in PATH, or named
// by RDMA_VM_PROGRAM). They need libibverbs-dev and a C compiler.
//
// Each test has a virtual machine of its own, and can be run alone:
//
//	RDMA_VM=1 go test -v -count=1 -run TestBuilds -artifacts -outputdir /tmp ./test/rdma
//
// In a machine with two emulated processors (no KVM, Linux 6.12), the runs took these times, without the time
// for building:
//
//	TestVerbs                    1 min
//	TestRevocations              7 min
//	TestGroups                   0.5 min
//	TestConnections              1 min
//	TestInterop                  0.3 min
//	TestBuilds                   3.5 min
//	TestServers                  2 min
//	TestProcesses                7 min: TestTram 3, TestTramUnplugged 3, TestTramRestartsOfAll 1
package rdma
