package tram

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/pkg/multicast"
)

// remainsWith returns the remains of a member of a group of three. Its state machine has a number of entries,
// and its log has entries at places, each with its timestamp.
func remainsWith(t *testing.T, self multicast.ProcessID, delivered multicast.Timestamp, votes map[uint64]vote) *Remains {
	c, err := New(Config{
		Self: self, Groups: []multicast.Group{{ID: 1, Members: []multicast.ProcessID{10, 11, 12}}}, Sync: true, Redeliver: true, Successive: true,
		Delivered: multicast.UpTo(multicast.Position{Final: delivered}),
	})
	require.NoError(t, err)
	for n, v := range votes {
		require.NoError(t, c.Replay(appendVote([]byte{recordEntry}, n, &v)))
	}
	return RemainsOf(c)
}

// slotOf returns an entry of a client, the next one behind those of the same client.
func slotOf(n uint64, from multicast.ProcessID, index uint64) []byte {
	e := &entry{from: from, index: index, message: message(from, index, 1)}
	e.encode(n)
	return e.slot
}

func finals(all []multicast.Delivery) (ids []multicast.MessageID) {
	for i, d := range all {
		if d.Final != multicast.Timestamp(i+1) {
			return nil
		}
		ids = append(ids, d.ID)
	}
	return ids
}

// TestRemains: of a place that no log knows to be decided, the entry with the highest timestamp counts. An
// entry that does not follow the chosen ones ends the log.
func TestRemains(t *testing.T) {
	first, second := timestamp(1, 0), timestamp(2, 1)
	id := func(p multicast.ProcessID, seq uint64) multicast.MessageID {
		return multicast.MessageID{Sender: p, Seq: seq}
	}
	a := remainsWith(t, 10, 2, map[uint64]vote{
		1: {first, slotOf(1, 10, 1)}, 2: {first, slotOf(2, 10, 2)}, 3: {first, slotOf(3, 10, 3)}, 4: {first, slotOf(4, 10, 4)},
	})
	require.EqualValues(t, 2, a.Applied, "the state machine has them")
	require.EqualValues(t, 4, a.Length)
	require.Equal(t, []multicast.MessageID{id(10, 1), id(10, 2), id(10, 3), id(10, 4)}, finals(a.Held()))

	b := remainsWith(t, 11, 0, map[uint64]vote{1: {first, slotOf(1, 10, 1)}, 2: {first, slotOf(2, 10, 2)}, 3: {second, slotOf(3, 11, 1)}})
	require.Zero(t, b.Applied)
	require.Equal(t, []multicast.MessageID{id(10, 1), id(10, 2), id(11, 1)}, finals(b.Held()))
	require.Equal(t, []multicast.MessageID{id(10, 1), id(10, 2), id(11, 1)}, finals(a.Held(b)), "entry 4 of a followed another third one")

	c := remainsWith(t, 12, 1, map[uint64]vote{1: {first, slotOf(1, 10, 1)}, 2: {first, slotOf(2, 10, 2)}, 3: {second, slotOf(3, 11, 1)}, 4: {second, slotOf(4, 12, 1)}})
	require.Equal(t, []multicast.MessageID{id(10, 1), id(10, 2), id(11, 1), id(12, 1)}, finals(a.Held(b, c)))
	require.Len(t, a.Held(), 4, "the others have changed nothing")
}
