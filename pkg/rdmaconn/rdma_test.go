//go:build verbs

package rdmaconn

// withRDMA: this program can open RDMA devices.
const withRDMA = true
