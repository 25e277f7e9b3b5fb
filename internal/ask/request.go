package ask

import (
	"fmt"
	"slices"
	"time"

	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/varint"
)

// Kind is the kind of a request.
type Kind uint8

// The kinds of requests. Their numbers never change.
const (
	Query        Kind = 1 + iota // Command only reads; one replica answers once it is as new as Vector
	Update                       // Command is multicast; executed once for each (Session, Seq)
	OpenSession                  // make Session known; repeating it is harmless
	RenewSession                 // extend the lease of Session; it holds the inodes in Held open
	CloseSession                 // end Session; the inodes that it held are released
	AskStatus                    // return the replica's Status, at once, even if the replica is cut off
	Persist                      // answer once all entries in Vector are in the log of this replica, and the log is on disk
	Watch                        // answer with the changes of the tree after a place: Command is an encoded Watching
	kindEnd
)

// IsWithoutSession reports whether a request may name no session.
func (k Kind) IsWithoutSession() bool {
	return k == Query || k == AskStatus || k == Persist || k == Watch
}

// MaxHeld is the largest length of Request.Held: the open files of one client in one partition.
const MaxHeld = 1 << 16

// DoubtAfter is the time for which a request waits for entries that its client has seen and the asked replica
// has not. Then a barrier in the order shows whether they exist.
const DoubtAfter = 100 * time.Millisecond

// MaxOutstanding is the largest Seq-Done of a session: the updates that are not answered yet, or answered out
// of order.
const MaxOutstanding = 1024

// Request is a request of a client to a replica of one partition.
type Request struct {
	Kind    Kind
	Session uint64      // chosen by the client at random, below 2^48, not 0; every kind but Query, AskStatus, Persist and Watch
	Seq     uint64      // of an Update: its number among those of the session to this partition, from 1
	Done    uint64      // all updates up to here were answered: their answers may be forgotten
	Vector  Vector      // entries that the client has seen: of Proofs, after Merge
	Proofs  Proofs      // as replicas have given them to the client
	Claim   Seen        // of the asked partition: seen by the client, and not proven
	Dest    []uint16    // of an Update of several partitions: all of them, sorted
	Fresh   bool        // of a Query: as of a time after it was sent (linearizable)
	Held    []posix.Ino // of RenewSession
	// Command is, of Query and Update, an encoded meta.Command; of OpenSession, the cluster's name; of Watch,
	// an encoded Watching.
	Command []byte

	// Horizon, of RenewSession, is a counter of blocks: no write of the session that is yet to be ordered
	// holds a block with a lower counter, unless the session has given up the write.
	Horizon uint64

	// Patience, of an Update, is the time for which its client waits, in milliseconds on the wire; 0: without
	// a bound. An update that is not executed by then is answered with ETIMEDOUT, and never executed.
	Patience time.Duration

	// Ticketed means that the client knows tickets: versions before tickets do not. Tickets are those of the
	// inodes that the request names (Command.Named of package meta, or Held), in this order. Absent ones are
	// zero. Without any ticket the list is empty.
	Ticketed bool
	Tickets  []posix.Ticket
}

// ticketFormat is the byte in front of Tickets.
const ticketFormat = 1

// Reader returns the client's entry for the asked partition.
func (r *Request) Reader(asked uint16) Seen { return r.Vector.Of(asked).Merge(r.Claim) }

// Merge sets Vector to the merged vectors of Proofs. It is costly for forged proofs: verify them before.
func (r *Request) Merge() { r.Vector = r.Proofs.Merged() }

// Trusted returns the request as replicas exchange it: they have verified the proofs, and need only the
// vector.
func (r *Request) Trusted() *Request {
	t := *r
	t.Proofs, t.Ticketed, t.Tickets = nil, false, nil
	return &t
}

// proofs returns the proofs, or the vector as a single proof without a tag.
func (r *Request) proofs() Proofs {
	if r.Proofs == nil && len(r.Vector) > 0 {
		return Proofs{{Vector: r.Vector}}
	}
	return r.Proofs
}

// maxPatience bounds Request.Patience, in milliseconds.
const maxPatience = 1 << 32

// Append appends the encoding of r.
func (r *Request) Append(b []byte) []byte {
	b = append(b, byte(r.Kind))
	b = varint.AppendUint(b, r.Session)
	b = varint.AppendUint(b, r.Seq)
	b = varint.AppendUint(b, r.Done)
	b = r.Claim.Append(r.proofs().Append(b))
	b = varint.AppendUint(b, uint64(len(r.Held)))
	for _, i := range r.Held {
		b = varint.AppendUint(b, i)
	}
	if r.Kind == RenewSession {
		b = varint.AppendUint(b, r.Horizon)
	}
	if r.Kind == Update {
		b = varint.AppendUint(b, uint64(r.Patience/time.Millisecond))
	}
	b = varint.AppendUint(b, uint64(len(r.Dest))<<1|varint.Bit(r.Fresh))
	for _, p := range r.Dest {
		b = varint.AppendUint(b, p)
	}
	b = varint.AppendBytes(b, r.Command)
	if r.Ticketed {
		b = appendTickets(append(b, ticketFormat), r.Tickets)
	}
	return b
}

// CountProofs returns the number of proofs of an encoded request, 0 if it is malformed. The replica verifies
// each.
func CountProofs(b []byte) int {
	r := varint.NewReader(b)
	_, _, _, _ = r.Uint8(), r.Uint64(), r.Uint64(), r.Uint64()
	if n := r.Count(); r.Err() == nil {
		return min(n, MaxProofs)
	}
	return 0
}

// Malformed is the reason with which a replica refuses a request that does not decode. Versions before
// tickets refuse a request with tickets for this reason.
const Malformed = "request: malformed encoding"

// DecodeRequest reads a request that Append has written; Command aliases b. The error names the malformed
// part.
func DecodeRequest(b []byte) (Request, error) {
	r := varint.NewReader(b)
	q := Request{Kind: Kind(r.Uint8()), Session: r.Uint(1<<48 - 1), Seq: r.Uint64(), Done: r.Uint64()}
	q.Proofs, q.Claim = ReadProofs(r), ReadSeen(r)
	n := r.Count()
	if n > MaxHeld {
		r.Fail()
	}
	for ; n > 0 && r.Err() == nil; n-- {
		q.Held = append(q.Held, posix.Ino(r.Uint64()))
	}
	if q.Kind == RenewSession {
		q.Horizon = r.Uint64()
	}
	if q.Kind == Update {
		q.Patience = time.Duration(r.Uint(maxPatience)) * time.Millisecond
	}
	flags := r.Uint64()
	q.Fresh = flags&1 != 0
	for n := flags >> 1; n > 0 && r.Err() == nil; n-- {
		q.Dest = append(q.Dest, r.Uint16())
	}
	q.Command = r.Bytes()
	if r.Len() > 0 {
		q.Ticketed = r.Uint(ticketFormat) == ticketFormat
		if q.Tickets = readTickets(r); !q.Ticketed {
			r.Fail()
		}
	}
	if err := r.Done(); err != nil {
		return Request{}, fmt.Errorf("request: %w", err)
	}
	switch {
	case q.Kind == 0 || q.Kind >= kindEnd:
		return Request{}, fmt.Errorf("request: unknown kind %d", q.Kind)
	case !q.Kind.IsWithoutSession() && q.Session == 0:
		return Request{}, fmt.Errorf("request: no session")
	case q.Kind == Update && (q.Seq <= q.Done || q.Seq-q.Done > MaxOutstanding):
		return Request{}, fmt.Errorf("request: update %d with all up to %d done: at most %d may be outstanding", q.Seq, q.Done, MaxOutstanding)
	case len(q.Dest) == 1 || len(q.Dest) > 0 && (q.Kind != Update || !slices.IsSorted(q.Dest) || len(slices.Compact(slices.Clone(q.Dest))) != len(q.Dest)):
		return Request{}, fmt.Errorf("request: destinations %v: only an update may have several, sorted", q.Dest)
	}
	return q, nil
}
