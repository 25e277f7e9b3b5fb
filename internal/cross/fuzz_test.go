package cross

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/order"
	"github.com/globalfs/globalfs/internal/session"
	"github.com/globalfs/globalfs/internal/varint"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// FuzzReceive passes two messages of any bytes to a partition with undecided commands. They are dropped, or
// have an effect: nothing breaks, and the resulting proposals can be executed.
func FuzzReceive(f *testing.F) {
	_, seen := undecided(f)
	for i, message := range seen {
		f.Add(message, seen[(i+1)%len(seen)])
	}
	f.Add([]byte{byte(messagePing)}, []byte{byte(messagePong)})
	f.Add(appendReceipt([]byte{byte(messageReceipt)}, receipt{1, 9}), somePosts.encode([]byte{byte(messagePosts)}))
	f.Add(appendConfirmation([]byte{byte(messageConfirm)}, someConfirm), outcomeMessage(someName, &someOutcome))
	f.Fuzz(func(t *testing.T, a, b []byte) {
		n, _ := undecided(t)
		before := n.Count()
		n.step(multicast.Frame{Peer: 2, Data: a}, multicast.Frame{Peer: 3, Data: b})
		require.Equal(t, before, n.Count(), "a message changes no state")
		_ = n.run() // another version may have sent it
	})
}

// FuzzExecute passes an entry of any bytes to a partition with undecided commands. The entry is executed, has
// no effect, or is an error that stops the replica.
func FuzzExecute(f *testing.F) {
	n, _ := undecided(f)
	mine, theirs, done := n.list[1], n.list[2], n.list[0]
	d := decision{id: mine.id, ballots: []ballot{{}, {kind: approval, place: 2, vector: someVector, vote: []byte("v")}}}
	o := outcome{id: theirs.id, vector: someVector}
	next := relay{previous: theirs.position, at: multicast.Position{Final: 9, ID: someID}, parties: theirs.parties, payload: n.payload(mine)}
	for kind, body := range map[order.Kind][]byte{
		EntryRelay: next.encode(), EntryDecide: d.encode(), EntryAbort: appendName(nil, mine.name(0)), EntryOutcome: o.encode(nil),
		EntryForget: appendForgotten(nil, done), EntryAbandon: appendAbandoned(nil, session.Name{Session: 7, Seq: 2}),
		EntryPosts: (&posts{from: 1, first: 1, vector: someVector}).encode(nil), EntryPosted: appendReceipt(nil, receipt{1, 3}),
		EntryCommand: nil, entryEnd: nil,
	} {
		f.Add(byte(kind), body)
	}
	f.Fuzz(func(t *testing.T, kind byte, body []byte) {
		n, _ := undecided(t)
		if kind == byte(EntryOutcome) && commits(body) {
			return // of a coordinator that contradicts itself: an invariant stops the replica (X1)
		}
		e := order.Entry{Time: 1e18, Kind: order.Kind(kind), Body: body}
		if !IsEntry(e.Kind) {
			require.ErrorIs(t, n.execute(&e), order.ErrVersion)
			return
		}
		if n.execute(&e) == nil {
			n.step()
			_ = n.run()
		}
	})
}

func commits(body []byte) bool {
	o := readOutcome(varint.NewReader(body))
	return o.commit
}

// payload returns the entry between partitions of a command that partition 0 has proposed.
func (n *node) payload(x *command) []byte {
	p := proposal{coordinator: x.coordinator, age: x.age, request: rename(x.update.Seq, 0, 1, "mine", 5).Data}
	n.orders.Begin(&multicast.Input{}, n.Receive)
	n.orders.Multicast(x.parties, order.Entry{Kind: EntryCommand, Body: p.encode()})
	var out multicast.Output
	n.orders.Step(false, &out)
	last := len(n.between.proposed) - 1
	return n.between.proposed[last].Payload
}

// An outcome that names another command than its message does is dropped.
func TestOutcomeOfAnotherCommand(t *testing.T) {
	n, _ := undecided(t)
	theirs := n.list[2]
	name := theirs.name(theirs.coordinator)
	n.step(multicast.Frame{Peer: 2, Data: outcomeMessage(name, &outcome{id: n.list[1].id, vector: someVector})})
	require.Nil(t, theirs.outcome)
	n.step(multicast.Frame{Peer: 2, Data: outcomeMessage(name, &outcome{id: theirs.id, vector: someVector})})
	require.NotNil(t, theirs.outcome)
}
