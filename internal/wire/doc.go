// Package wire has the messages that cross the network between processes: frames.proto and the code generated
// from it. Only package transport imports it; the content of a frame or a request is bytes to both.
package wire

//go:generate protoc --go_out=. --go_opt=paths=source_relative --go-grpc_out=. --go-grpc_opt=paths=source_relative frames.proto
