// Package rdma runs the tests that need RDMA: those of build tag verbs. They run on a device of this machine,
// or, with RDMA_VM=1, in a virtual machine with soft-RoCE devices by the program rdma-vm (in PATH, or named
// by RDMA_VM_PROGRAM). They need libibverbs-dev and a C compiler.
package rdma
