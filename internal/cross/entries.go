package cross

import (
	"slices"

	"github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/internal/order"
	"github.com/globalfs/globalfs/internal/session"
	"github.com/globalfs/globalfs/internal/varint"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// Kinds of entries. Their numbers never change. All but EntryCommand are of the partition's own order.
const (
	EntryRelay   order.Kind = 32 + iota // a delivery of the order between partitions
	EntryDecide                         // commit, with the ballots of the other parties
	EntryAbort                          // commands to be proposed again
	EntryOutcome                        // of a command that another party coordinates
	EntryForget                         // commands that all parties have confirmed
	EntryAbandon                        // updates with ended calls
	EntryPosts                          // of another partition
	EntryPosted                         // posts that another partition has executed
	EntrySeal                           // no effect: messages that wait for a durable entry leave after it
	entryEnd

	EntryCommand order.Kind = 64 // of the order between partitions: a client's update
)

// isDurable reports whether entries of a kind are durable (D1): a message to another partition follows from
// them. EntryForget and EntryPosted only end the repetition of a message.
func isDurable(k order.Kind) bool { return IsEntry(k) && k != EntryForget && k != EntryPosted }

// IsEntry reports whether a kind of the partition's own order belongs to this package.
func IsEntry(k order.Kind) bool { return k >= EntryRelay && k < entryEnd }

// proposal is the body of EntryCommand.
type proposal struct {
	coordinator uint16
	age         Age         // zero: the message is the first proposal, and its own age
	attempt     uint8       // of the asked replica, from 0 on
	client      *ask.Client // nil: a process of the cluster
	request     []byte
}

func (p *proposal) encode() []byte {
	b := varint.AppendUint(make([]byte, 0, len(p.request)+64), p.coordinator)
	b = append(appendAge(b, p.age), p.attempt)
	b = varint.AppendUint(b, varint.Bit(p.client != nil))
	if p.client != nil {
		b = ask.AppendClient(b, p.client)
	}
	return append(b, p.request...)
}

func readProposal(b []byte) (p proposal, err error) {
	r := varint.NewReader(b)
	p.coordinator, p.age, p.attempt = r.Uint16(), readAge(r), r.Uint8()
	if r.Uint(1) != 0 {
		p.client = ask.ReadClient(r)
	}
	p.request = r.Rest()
	return p, r.Done()
}

// relay is a message of the order between partitions on its way into the partition's own order.
type relay struct {
	previous multicast.Position // the relay of the class before this one
	at       multicast.Position
	parties  []uint16
	payload  []byte
}

func (d *relay) encode() []byte {
	b := ask.AppendPosition(make([]byte, 0, len(d.payload)+64), d.previous)
	b = appendParties(ask.AppendPosition(b, d.at), d.parties)
	return append(b, d.payload...)
}

func readRelay(b []byte) (d relay, err error) {
	r := varint.NewReader(b)
	d.previous, d.at, d.parties = ask.ReadPosition(r), ask.ReadPosition(r), readParties(r)
	d.payload = r.Rest()
	return d, r.Done()
}

// RequestIn returns the encoded request of a client in an entry of the partition's own order or of the order
// between partitions; nil: there is none.
func RequestIn(e *order.Entry) []byte {
	if e.Kind == EntryRelay {
		d, err := readRelay(e.Body)
		if err != nil {
			return nil
		}
		inner, err := order.DecodeEntry(d.payload)
		if err != nil {
			return nil
		}
		e = &inner
	}
	if e.Kind != EntryCommand {
		return nil
	}
	p, err := readProposal(e.Body)
	if err != nil {
		return nil
	}
	return p.request
}

// decision is the body of EntryDecide: the ballots of the parties, in their order; that of the coordinator is
// empty.
type decision struct {
	id      multicast.MessageID
	ballots []ballot
}

func (d *decision) encode() []byte {
	b := varint.AppendUint(appendID(nil, d.id), uint64(len(d.ballots)))
	for _, x := range d.ballots {
		b = appendBallot(b, x)
	}
	return b
}

func readDecision(b []byte) (d decision, err error) {
	r := varint.NewReader(b)
	d.id = readID(r)
	for n := r.Count(); n > 0 && r.Err() == nil; n-- {
		d.ballots = append(d.ballots, readBallot(r))
	}
	return d, r.Done()
}

// outcome is the decision of a coordinator. It is the body of an EntryOutcome, and of a message to the
// parties.
type outcome struct {
	id     multicast.MessageID
	commit bool
	votes  [][]byte   // committed: of all parties
	vector ask.Vector // of the coordinator, after the decision
}

func (o *outcome) encode(b []byte) []byte {
	b = varint.AppendUint(appendID(b, o.id), varint.Bit(o.commit))
	return o.vector.Append(appendStrings(b, o.votes))
}

// clone returns an outcome that does not alias the message that it was read from.
func (o *outcome) clone() *outcome {
	c := *o
	c.votes = make([][]byte, len(o.votes))
	for i, v := range o.votes {
		c.votes[i] = slices.Clone(v)
	}
	return &c
}

func readOutcome(r *varint.Reader) outcome {
	return outcome{id: readID(r), commit: r.Uint(1) != 0, votes: readStrings(r), vector: ask.ReadVector(r)}
}

// confirmation is the report of a party that it has ordered the outcome of a command, with its entry for
// itself.
type confirmation struct {
	id    multicast.MessageID
	from  uint16
	entry ask.Seen
}

func appendConfirmation(b []byte, x confirmation) []byte {
	return x.entry.Append(varint.AppendUint(appendID(b, x.id), x.from))
}

func readConfirmation(r *varint.Reader) confirmation {
	return confirmation{id: readID(r), from: r.Uint16(), entry: ask.ReadSeen(r)}
}

// forgotten names a command of which all parties have confirmed the outcome, with the entries of the parties
// for themselves.
type forgotten struct {
	id      multicast.MessageID
	entries []partySeen
}

type partySeen struct {
	partition uint16
	entry     ask.Seen
}

func appendForgotten(b []byte, x *command) []byte {
	b = varint.AppendUint(appendID(b, x.id), uint64(len(x.confirmed)))
	for _, p := range x.parties {
		if seen, ok := x.confirmed[p]; ok {
			b = seen.Append(varint.AppendUint(b, p))
		}
	}
	return b
}

func readForgotten(r *varint.Reader) forgotten {
	f := forgotten{id: readID(r)}
	for n := r.Count(); n > 0 && r.Err() == nil; n-- {
		f.entries = append(f.entries, partySeen{partition: r.Uint16(), entry: ask.ReadSeen(r)})
	}
	return f
}

// appendAbandoned appends the name of an update with ended calls.
func appendAbandoned(b []byte, n session.Name) []byte {
	return varint.AppendBytes(varint.AppendUint(varint.AppendUint(b, n.Session), n.Seq), n.Client)
}

func readAbandoned(r *varint.Reader) session.Name {
	return session.Name{Session: r.Uint64(), Seq: r.Uint64(), Client: r.String()}
}

// posts is EntryPosts, and a message: consecutive posts of a partition to this one.
type posts struct {
	from     uint16
	first    uint64     // number of the first; the numbers of a destination follow each other
	vector   ask.Vector // of the sender
	commands [][]byte   // of package meta
}

func (p *posts) encode(b []byte) []byte {
	b = varint.AppendUint(varint.AppendUint(b, p.from), p.first)
	return appendStrings(p.vector.Append(b), p.commands)
}

func readPosts(r *varint.Reader) posts {
	return posts{from: r.Uint16(), first: r.Uint64(), vector: ask.ReadVector(r), commands: readStrings(r)}
}

// receipt is EntryPosted, and a message: a partition has executed posts up to a number.
type receipt struct {
	from uint16
	upTo uint64
}

func appendReceipt(b []byte, x receipt) []byte {
	return varint.AppendUint(varint.AppendUint(b, x.from), x.upTo)
}

func readReceipt(r *varint.Reader) receipt { return receipt{from: r.Uint16(), upTo: r.Uint64()} }
