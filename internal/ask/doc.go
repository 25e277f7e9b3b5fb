// Package ask is the protocol between a client and a replica of a partition: requests and replies, the vector
// clock that a client carries from one replica to another (T 3.4.1), the identity of the client machine, and
// the status of a replica.
//
// The package holds data types and their encodings. Package replica executes requests; package client and
// others send them without depending on package replica.
//
// # Encoding
//
// All encodings consist of the varints of package varint. The numbers of kinds and outcomes never change:
// requests are stored in write-ahead logs, and clients of another version send them. A decoder accepts any
// bytes: it returns an error for malformed or out-of-range values. Its allocations are bounded by a constant
// factor of its input.
//
// # Proofs
//
// Replicas of one partition cannot know the counts of another one. A client carries these counts, and could
// forge them. So a replica gives its vector with a tag (Sealer), and a request contains the tagged vectors
// that the client was given (Proofs).
//
//	P1  A replica stores, passes on and marks only entries of vectors whose tags it has verified, and entries
//	    of other replicas. By induction, each stored entry of a partition was once the true state of that
//	    partition.
//	P2  The vector of an answer covers the vector of its request. So the client needs one proof after it, and
//	    one more for each request that ran at the same time.
//	P3  A client may show entries of the asked partition without a proof (Claim). They only delay its own
//	    request: a true count was ordered before the request was sent, so a barrier of the partition's order
//	    tells (package reads). So a client whose proofs are void, because the keys were changed twice, gets
//	    new ones from each partition.
//	P4  A proven count that a barrier does not reach shows that the partition has lost entries. By P1, nobody
//	    else can cause this. The partition then begins a new history: its entries replace those of the old one
//	    wherever they meet.
//
// A Client is not part of a Request: the server of the replica derives it from the certificate of the
// connection and hands it over next to the request.
package ask
