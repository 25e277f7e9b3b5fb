package cross

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/order"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/varint"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// kindsSent returns the kinds of the messages of the last step.
func (n *node) kindsSent() (kinds []messageKind) {
	for _, f := range n.frames {
		for _, message := range messagesOf(n.t, f) {
			kinds = append(kinds, messageKind(message[0]))
		}
	}
	return kinds
}

// proposedKinds returns the kinds of the proposals in the own order, and demands that these are as durable as
// D1 requires.
func (n *node) proposedKinds() (kinds []order.Kind) {
	for _, m := range n.own.proposed {
		e, err := order.DecodeEntry(m.Payload)
		require.NoError(n.t, err)
		require.Equal(n.t, e.Kind != EntryForget && e.Kind != EntryPosted, m.Durable, "kind %d", e.Kind)
		kinds = append(kinds, e.Kind)
	}
	return kinds
}

// D3: a post waits for a durable entry behind the entry that made it. The latter is not durable.
func TestAPostWaitsForADurableEntry(t *testing.T) {
	n := newNode(t, 0)
	root := posix.MakeIno(0, 1)
	place := meta.Command{Op: meta.OpPlace, Ino: root, Data: (&meta.Rule{Spread: []uint16{1}}).Append(nil)}
	require.Equal(t, posix.OK, n.machine.Apply(&place, 1).Code)
	makes := func(name string) {
		c := meta.Command{Op: meta.OpMknod, Ino: root, Name: name, Mode: posix.TypeRegular | 0o600}
		n.machine.Apply(&c, n.Count()) // asks partition 1 for numbers
		require.Equal(t, []uint16{1}, n.machine.Destinations())
	}
	makes("a")
	n.step()
	require.NotContains(t, n.kindsSent(), messagePosts)
	require.Equal(t, []order.Kind{EntrySeal}, n.proposedKinds())
	n.step()
	require.Equal(t, []order.Kind{EntrySeal}, n.proposedKinds(), "one is enough")
	require.NoError(t, n.run())
	n.step()
	require.Contains(t, n.kindsSent(), messagePosts)
	n.load(0) // nothing is known to be sealed after a restart
	n.step()
	require.NotContains(t, n.kindsSent(), messagePosts)
	require.Equal(t, []order.Kind{EntrySeal}, n.proposedKinds())
}

// D2: the vector of an outcome is as of the newest durable entry, whatever was executed since.
func TestAnOutcomeCarriesTheSealedVector(t *testing.T) {
	n, _ := undecided(t)
	at := n.gate.sealed().Of(0).Count
	require.Equal(t, n.Count(), at)
	n.Advance(1) // an update of this partition
	n.EndEntry()
	n.pursuit.sendOutcome(n.list[0], []multicast.ProcessID{2})
	n.step()
	found := false
	for _, f := range n.frames {
		for _, message := range messagesOf(t, f) {
			if messageKind(message[0]) == messageOutcome {
				_, o := outcomeOf(message)
				require.Equal(t, at, o.vector.Of(0).Count)
				found = true
			}
		}
	}
	require.True(t, found)
}

// D1, for the entries of a rename.
func TestTheEntriesOfARenameAreDurable(t *testing.T) {
	n := newNode(t, 0)
	m := n.submit(rename(1, 0, 1, "f", n.mknod("f")))
	n.orders.Delivered(m.ID)
	n.Relay(&multicast.Delivery{Message: m, Final: 1})
	n.step()
	require.Equal(t, []order.Kind{EntryRelay}, n.proposedKinds())
	require.True(t, slices.ContainsFunc(n.own.proposed, func(m multicast.Message) bool { return m.Durable }))
}

func outcomeOf(message []byte) (name, outcome) {
	r := varint.NewReader(message[1:])
	return readName(r), readOutcome(r)
}
