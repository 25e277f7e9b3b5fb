// Package interop runs the interoperability tests of gRPC on connections of package rdmaconn. It is a module
// of its own, since these tests need modules that GlobalFS does not need. test/rdma runs it.
package interop
