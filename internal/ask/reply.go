package ask

import (
	"fmt"
	"slices"

	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/varint"
)

// Outcome is the outcome of a request: whether Reply.Result is an answer.
type Outcome uint8

// The outcomes. Their numbers never change.
const (
	Answered       Outcome = iota // Result holds the answer
	UnknownSession                // the session ended or never was; its open files and locks are gone
	Overloaded                    // not executed: try again later or at another replica
	Refused                       // not executed: the request is malformed; Result has the reason
	Unseen                        // not executed: the vector counts entries that this partition does not have
	Replaced                      // the replica left its group: ask another one; it may have ordered an update
	Unproven                      // not executed: no server of the cluster has given the client its proofs
	outcomeEnd
)

// Reply is the answer to a Request.
type Reply struct {
	Status Outcome
	Vector Vector // of the replica, and of the client
	Tag    []byte // proves Vector to other replicas
	Result []byte // an encoded meta.Result; of AskStatus an encoded Status; of Watch encoded Changes; if Refused a text
	// Tickets are, for a bound client that knows them, those of the inodes in Result (NewInodes of package
	// meta). Those of the inodes that the request names follow if the client needs new ones.
	Tickets []posix.Ticket
}

// Append appends the encoding of r.
func (r *Reply) Append(b []byte) []byte {
	b = append(b, byte(r.Status))
	b = varint.AppendBytes(r.Vector.Append(b), r.Tag)
	return appendTickets(varint.AppendBytes(b, r.Result), r.Tickets)
}

// DecodeReply reads a reply that Append has written; Result aliases b. The error names the malformed part.
func DecodeReply(b []byte) (Reply, error) {
	r := varint.NewReader(b)
	p := Reply{Status: Outcome(r.Uint(uint64(outcomeEnd - 1))), Vector: ReadVector(r), Tag: slices.Clone(r.Bytes()), Result: r.Bytes(), Tickets: readTickets(r)}
	if err := r.Done(); err != nil {
		return Reply{}, fmt.Errorf("reply: %w", err)
	}
	return p, nil
}
