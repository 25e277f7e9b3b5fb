package replica

import (
	"fmt"
	"slices"

	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/varint"
)

// Kind says what a client asks for.
type Kind uint8

// The kinds of requests, numbered for ever.
const (
	Query        Kind = 1 + iota // Command only reads; one replica answers once it is as new as Vector
	Update                       // Command is multicast; executed once for each (Session, Seq)
	OpenSession                  // make Session known; repeating it is harmless
	RenewSession                 // Session lives on, and holds the inodes in Held open
	CloseSession                 // Session ends; what it held is let go
	AskStatus                    // Result is an encoded Status; answered at once, also by a replica that is cut off
	kindEnd
)

// MaxHeld bounds Request.Held: the open files of one client in one partition.
const MaxHeld = 1 << 16

// MaxOutstanding bounds Seq-Done of a session: the updates without an answer yet,
// or answered out of order.
const MaxOutstanding = 1024

// Request is what a client asks a replica of one partition.
type Request struct {
	Kind    Kind
	Session uint64      // chosen by the client at random, below 2^48, not 0; every kind but Query
	Seq     uint64      // of an Update: numbers the session's updates to this partition from 1
	Done    uint64      // all updates up to here were answered: their answers may be forgotten
	Vector  Vector      // what the client has seen
	Dest    []uint16    // of an Update of several partitions: all of them, sorted, the one that is asked included
	Fresh   bool        // of a Query: as of a time after it was asked (linearizable)
	Held    []posix.Ino // of RenewSession
	Horizon uint64      // of RenewSession: blocks of the session with counters below it are in no write any more that is not ordered yet, or such a write is given up
	Command []byte      // an encoded meta.Command; Query and Update. Of OpenSession: Config.Cluster
}

// Append appends the encoding of r.
func (r *Request) Append(b []byte) []byte {
	b = append(b, byte(r.Kind))
	b = varint.AppendUint(b, r.Session)
	b = varint.AppendUint(b, r.Seq)
	b = varint.AppendUint(b, r.Done)
	b = appendVector(b, r.Vector)
	b = varint.AppendUint(b, uint64(len(r.Held)))
	for _, i := range r.Held {
		b = varint.AppendUint(b, i)
	}
	if r.Kind == RenewSession {
		b = varint.AppendUint(b, r.Horizon)
	}
	b = varint.AppendUint(b, uint64(len(r.Dest))<<1|fresh(r.Fresh))
	for _, p := range r.Dest {
		b = varint.AppendUint(b, p)
	}
	return varint.AppendBytes(b, r.Command)
}

// DecodeRequest reads a request; Command aliases b.
func DecodeRequest(b []byte) (Request, error) {
	r := varint.NewReader(b)
	q := Request{Kind: Kind(r.Uint8()), Session: r.Uint(1<<48 - 1), Seq: r.Uint64(), Done: r.Uint64(), Vector: readVector(r)}
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
	flags := r.Uint64()
	q.Fresh = flags&1 != 0
	for n := flags >> 1; n > 0 && r.Err() == nil; n-- {
		q.Dest = append(q.Dest, r.Uint16())
	}
	q.Command = r.Bytes()
	if err := r.Done(); err != nil {
		return Request{}, fmt.Errorf("request: %w", err)
	}
	switch {
	case q.Kind == 0 || q.Kind >= kindEnd:
		return Request{}, fmt.Errorf("request: unknown kind %d", q.Kind)
	case q.Kind != Query && q.Kind != AskStatus && q.Session == 0:
		return Request{}, fmt.Errorf("request: no session")
	case q.Kind == Update && (q.Seq <= q.Done || q.Seq-q.Done > MaxOutstanding):
		return Request{}, fmt.Errorf("request: update %d with all up to %d done: at most %d may be outstanding", q.Seq, q.Done, MaxOutstanding)
	case len(q.Dest) == 1 || len(q.Dest) > 0 && (q.Kind != Update || !slices.IsSorted(q.Dest) || len(slices.Compact(slices.Clone(q.Dest))) != len(q.Dest)):
		return Request{}, fmt.Errorf("request: destinations %v: only an update may have several, sorted", q.Dest)
	}
	return q, nil
}

func fresh(is bool) uint64 {
	if is {
		return 1
	}
	return 0
}

// Outcome says whether Reply.Result is an answer.
type Outcome uint8

// The outcomes, numbered for ever.
const (
	Answered       Outcome = iota // Result holds the outcome
	UnknownSession                // the session ended or never was: open a new one; open files and locks of the old one are gone
	Overloaded                    // not executed: try again later or elsewhere
	Refused                       // not executed: the request is malformed, Result says why
	statusEnd
)

// Reply answers a Request.
type Reply struct {
	Status Outcome
	Vector Vector // the replica's, for the client to merge
	Result []byte // an encoded meta.Result, or a text if Refused
}

// Append appends the encoding of r.
func (r *Reply) Append(b []byte) []byte {
	b = append(b, byte(r.Status))
	b = appendVector(b, r.Vector)
	return varint.AppendBytes(b, r.Result)
}

// DecodeReply reads a reply; Result aliases b.
func DecodeReply(b []byte) (Reply, error) {
	r := varint.NewReader(b)
	p := Reply{Status: Outcome(r.Uint(uint64(statusEnd - 1))), Vector: readVector(r), Result: r.Bytes()}
	if err := r.Done(); err != nil {
		return Reply{}, fmt.Errorf("reply: %w", err)
	}
	return p, nil
}
