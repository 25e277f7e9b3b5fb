package cross

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/internal/order"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// A confirmation of a partition that is no party is dropped. If it is kept, FORGET counts more entries than
// it holds: it cannot be read, and stops all replicas of the partition for ever.
func TestAConfirmationOfAStranger(t *testing.T) {
	n, _ := undecided(t)
	x := n.list[0]
	for _, from := range []uint16{2, 9, 1} {
		message := appendConfirmation([]byte{byte(messageConfirm)}, confirmation{id: x.id, from: from, entry: ask.Seen{Count: 3}})
		n.step(multicast.Frame{Peer: multicast.ProcessID(from) + 1, Data: message})
	}
	require.NoError(t, n.run())
	require.NotContains(t, n.byID, x.id, "it is forgotten")
}

// An entry that cannot be executed comes from another version. The error contains this reason.
func TestErrorsOfExecuteNameTheVersion(t *testing.T) {
	base, _ := undecided(t)
	x := base.list[1]
	unknown := proposal{coordinator: 0, request: (&ask.Request{Kind: ask.Update, Session: 7, Seq: 9, Dest: []uint16{0, 1}, Command: []byte{255}}).Append(nil)}
	between := func(kind order.Kind, body []byte) []byte {
		base.step()
		base.orders.Multicast(x.parties, order.Entry{Kind: kind, Body: body})
		base.between.proposed = nil
		var out multicast.Output
		base.orders.Step(false, &out)
		return (&relay{
			previous: base.list[2].position, at: multicast.Position{Final: 9, ID: someID}, parties: x.parties, payload: base.between.proposed[0].Payload,
		}).encode()
	}
	for name, e := range map[string]order.Entry{
		"an unknown operation between partitions": {Kind: EntryRelay, Body: between(EntryCommand, unknown.encode())},
		"a malformed proposal":                    {Kind: EntryRelay, Body: between(EntryCommand, []byte{1})},
		"a malformed request":                     {Kind: EntryRelay, Body: between(EntryCommand, (&proposal{request: []byte{99}}).encode())},
		"an unknown kind between partitions":      {Kind: EntryRelay, Body: between(70, nil)},
		"a malformed relay":                       {Kind: EntryRelay, Body: []byte{1}},
		"a malformed decision":                    {Kind: EntryDecide, Body: []byte{1}},
		"a malformed abort":                       {Kind: EntryAbort, Body: []byte{1}},
		"a malformed outcome":                     {Kind: EntryOutcome, Body: []byte{1}},
		"a malformed forget":                      {Kind: EntryForget, Body: []byte{1}},
		"a malformed abandon":                     {Kind: EntryAbandon, Body: []byte{1}},
		"malformed posts":                         {Kind: EntryPosts, Body: []byte{1}},
		"an unknown post":                         {Kind: EntryPosts, Body: (&posts{from: 1, first: 1, commands: [][]byte{{255}}}).encode(nil)},
		"a malformed receipt":                     {Kind: EntryPosted, Body: []byte{1}},
	} {
		t.Run(name, func(t *testing.T) {
			n, _ := undecided(t)
			require.ErrorIs(t, n.execute(&e), order.ErrVersion)
		})
	}
}

// A relay with other parties than those of a command of this partition, sorted and with the coordinator, is
// an error, or has no effect. It does not break the replica later.
func TestARelayOfOtherParties(t *testing.T) {
	for name, c := range map[string]struct {
		parties     []uint16
		coordinator uint16
	}{
		"not of this partition":  {[]uint16{1, 2}, 0},
		"not of the coordinator": {[]uint16{0, 1}, 2},
		"not of the cluster":     {[]uint16{0, 60000}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t, 0)
			n.step()
			p := proposal{coordinator: c.coordinator, request: rename(1, 0, 1, "a", n.mknod("a")).Data}
			n.orders.Multicast(c.parties, order.Entry{Kind: EntryCommand, Body: p.encode()})
			var out multicast.Output
			n.orders.Step(false, &out)
			w := relay{at: multicast.Position{Final: 9, ID: someID}, parties: c.parties, payload: n.between.proposed[0].Payload}
			if n.execute(&order.Entry{Kind: EntryRelay, Body: w.encode()}) != nil {
				return
			}
			d := decision{id: someID, ballots: []ballot{{kind: approval, place: 1, vote: []byte("v")}, {kind: approval, place: 1, vote: []byte("v")}}}
			require.NotPanics(t, func() { _ = n.execute(&order.Entry{Kind: EntryDecide, Body: d.encode()}) })
			require.Empty(t, n.list, "nobody ends it")
		})
	}
}
