//go:build !verbs

package rdmaconn

// withRDMA: this program cannot open RDMA devices.
const withRDMA = false
