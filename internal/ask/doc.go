// Package ask is the protocol between a client and a replica of a partition: requests and replies, the
// vector clock that a client carries from one replica to another (T 3.4.1), the identity of the client
// machine, and the status of a replica.
//
// The package holds data types and their encodings. Package replica executes requests; package client and
// others send them without depending on package replica.
//
// # Encoding
//
// All encodings consist of the varints of package varint. The numbers of kinds and outcomes never change:
// requests are stored in write-ahead logs, and clients of another version send them. A decoder accepts any
// bytes: it returns an error for what is malformed or out of range. What it allocates is bounded by a
// constant factor of its input.
//
// A Client is not part of a Request: the server of the replica derives it from the certificate of the
// connection and hands it over next to the request.
package ask
