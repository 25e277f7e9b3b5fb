package cross

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/internal/kv"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// half is one party of a rename of the file f from partition 0, which coordinates, to partition 1.
func half(t *testing.T, partition uint16, m *multicast.Message) *node {
	n := newNode(t, partition)
	if partition == 0 {
		ino := n.mknod("f")
		if m.Payload == nil {
			*m = n.submit(rename(1, 0, 1, "f", ino))
		}
	}
	return n
}

// stateOf gives the surviving state of a node.
func (n *node) stateOf() State {
	n.Save()
	machine, err := meta.New(n.keys, meta.Config{Partition: n.cfg.Partition})
	require.NoError(n.t, err)
	return State{Keys: n.keys, Machine: machine}
}

// vote brings a rename to the votes of both parties, and decides it at the coordinator. It returns the
// OUTCOME that the other party proposes.
func vote(t *testing.T, a, b *node, m multicast.Message) (outcome []byte) {
	a.deliver(m, 1)
	b.deliver(m, 1)
	b.step()
	for _, f := range b.frames {
		for _, message := range messagesOf(t, f) {
			a.step(multicast.Frame{Peer: 2, Data: message})
		}
	}
	require.NoError(t, a.run())
	require.Equal(t, committed, a.list[0].phase)
	a.step()
	for _, f := range a.frames {
		for _, message := range messagesOf(t, f) {
			b.step(multicast.Frame{Peer: 1, Data: message})
		}
	}
	require.NotEmpty(t, b.own.proposed)
	return b.own.proposed[len(b.own.proposed)-1].Payload
}

// abortedHalf returns a coordinator that has executed an ABORT of the rename.
func abortedHalf(t *testing.T, m multicast.Message) *node {
	n := half(t, 0, &m)
	n.deliver(m, 1)
	n.abort(&name{id: m.ID})
	require.Equal(t, aborted, n.list[0].phase)
	return n
}

// TestSettle: a command ends alike at both parties, by each source of its outcome.
func TestSettle(t *testing.T) {
	root0, root1 := posix.MakeIno(0, 1), posix.MakeIno(1, 1)
	for name, test := range map[string]struct {
		states  func(t *testing.T) (states []State, decisions map[multicast.MessageID]Decision)
		outcome Outcome
		done    []uint16
		lacking []uint16
		moved   bool // the file is in partition 1
	}{
		"S3: the coordinator has decided": {func(t *testing.T) ([]State, map[multicast.MessageID]Decision) {
			var m multicast.Message
			a, b := half(t, 0, &m), half(t, 1, &m)
			vote(t, a, b, m)
			return []State{a.stateOf(), b.stateOf()}, nil
		}, Committed, []uint16{1}, nil, true},
		"S3: the party has lost its vote": {func(t *testing.T) ([]State, map[multicast.MessageID]Decision) {
			var m multicast.Message
			a := half(t, 0, &m)
			vote(t, a, half(t, 1, &m), m)
			return []State{a.stateOf(), newNode(t, 1).stateOf()}, nil
		}, Committed, nil, []uint16{1}, false},
		"S1: the coordinator has lost the decision, and a log has it": {func(t *testing.T) ([]State, map[multicast.MessageID]Decision) {
			var m multicast.Message
			a, b := half(t, 0, &m), half(t, 1, &m)
			id, d, found := DecisionOf(vote(t, a, b, m))
			require.True(t, found)
			require.True(t, d.Commit)
			short := half(t, 0, &m)
			short.deliver(m, 1)
			return []State{short.stateOf(), b.stateOf()}, map[multicast.MessageID]Decision{id: d}
		}, Committed, []uint16{0, 1}, nil, true},
		"S2: another partition follows from the commit": {func(t *testing.T) ([]State, map[multicast.MessageID]Decision) {
			var m multicast.Message
			a, b := half(t, 0, &m), half(t, 1, &m)
			a.deliver(m, 1)
			b.deliver(m, 1)
			witness := newNode(t, 2)
			witness.vector.entries[1] = ask.Seen{}.Observe(b.list[0].place)
			return []State{a.stateOf(), b.stateOf(), witness.stateOf()}, nil
		}, Committed, []uint16{0, 1}, nil, true},
		"S2: the votes of a committed command are lost": {func(t *testing.T) ([]State, map[multicast.MessageID]Decision) {
			var m multicast.Message
			a, b := half(t, 0, &m), half(t, 1, &m)
			a.deliver(m, 1)
			b.deliver(m, 1)
			witness := newNode(t, 2)
			witness.vector.entries[1] = ask.Seen{}.Observe(b.list[0].place)
			return []State{newNode(t, 0).stateOf(), b.stateOf(), witness.stateOf()}, nil
		}, Committed, nil, []uint16{0, 1}, false},
		"S1: the short coordinator has aborted, and a log has the commit": {func(t *testing.T) ([]State, map[multicast.MessageID]Decision) {
			var m multicast.Message
			a, b := half(t, 0, &m), half(t, 1, &m)
			id, d, found := DecisionOf(vote(t, a, b, m))
			require.True(t, found)
			return []State{abortedHalf(t, m).stateOf(), b.stateOf()}, map[multicast.MessageID]Decision{id: d}
		}, Committed, []uint16{1}, []uint16{0}, true},
		"S1: the short coordinator has aborted, and the other party has executed": {func(t *testing.T) ([]State, map[multicast.MessageID]Decision) {
			var m multicast.Message
			a, b := half(t, 0, &m), half(t, 1, &m)
			id, d, found := DecisionOf(vote(t, a, b, m))
			require.True(t, found)
			require.NoError(t, b.run())
			return []State{abortedHalf(t, m).stateOf(), b.stateOf()}, map[multicast.MessageID]Decision{id: d}
		}, Committed, nil, []uint16{0}, true},
		"S1: the short coordinator has committed, and a log has the abort": {func(t *testing.T) ([]State, map[multicast.MessageID]Decision) {
			var m multicast.Message
			a, b := half(t, 0, &m), half(t, 1, &m)
			vote(t, a, b, m)
			return []State{a.stateOf(), b.stateOf()}, map[multicast.MessageID]Decision{m.ID: {}}
		}, Aborted, nil, []uint16{0}, false},
		"S2: the short coordinator has aborted, and another partition follows from the commit": {func(t *testing.T) ([]State, map[multicast.MessageID]Decision) {
			var m multicast.Message
			half(t, 0, &m)
			a, b := abortedHalf(t, m), half(t, 1, &m)
			b.deliver(m, 1)
			witness := newNode(t, 2)
			witness.vector.entries[1] = ask.Seen{}.Observe(b.list[0].place)
			return []State{a.stateOf(), b.stateOf(), witness.stateOf()}, nil
		}, Committed, nil, []uint16{0, 1}, false},
		"S4: the short coordinator has aborted, and the other party has executed": {func(t *testing.T) ([]State, map[multicast.MessageID]Decision) {
			var m multicast.Message
			a, b := half(t, 0, &m), half(t, 1, &m)
			vote(t, a, b, m)
			require.NoError(t, b.run())
			return []State{abortedHalf(t, m).stateOf(), b.stateOf()}, nil
		}, Unknown, nil, nil, true},
		"S4: nobody has decided": {func(t *testing.T) ([]State, map[multicast.MessageID]Decision) {
			var m multicast.Message
			a, b := half(t, 0, &m), half(t, 1, &m)
			a.deliver(m, 1)
			b.deliver(m, 1)
			return []State{a.stateOf(), b.stateOf()}, nil
		}, Aborted, nil, nil, false},
		"S4: the coordinator has not begun": {func(t *testing.T) ([]State, map[multicast.MessageID]Decision) {
			var m multicast.Message
			a, b := half(t, 0, &m), half(t, 1, &m)
			b.deliver(m, 1)
			return []State{a.stateOf(), b.stateOf()}, nil
		}, Aborted, nil, nil, false},
		"S4: the coordinator has lost the decision, and the other party has concluded": {func(t *testing.T) ([]State, map[multicast.MessageID]Decision) {
			var m multicast.Message
			a, b := half(t, 0, &m), half(t, 1, &m)
			vote(t, a, b, m)
			require.NoError(t, b.run())
			require.Empty(t, b.list)
			short := half(t, 0, &m)
			short.deliver(m, 1)
			return []State{short.stateOf(), b.stateOf()}, nil
		}, Unknown, nil, nil, true},
		"S4: the coordinator has forgotten": {func(t *testing.T) ([]State, map[multicast.MessageID]Decision) {
			var m multicast.Message
			a, b := half(t, 0, &m), half(t, 1, &m)
			vote(t, a, b, m)
			place := b.list[0].place
			a.forget(&forgotten{id: m.ID, entries: []partySeen{{partition: 1, entry: ask.State(place+1, nil, nil)}}})
			return []State{a.stateOf(), b.stateOf()}, nil
		}, Unknown, nil, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			states, decisions := test.states(t)
			short := []bool{true, false, false}
			all, err := Settle(states, short, decisions, 5)
			require.NoError(t, err)
			require.Len(t, all, 1)
			require.Equal(t, test.outcome, all[0].Outcome)
			require.Equal(t, test.done, all[0].Executed)
			require.Equal(t, test.lacking, all[0].Lacking)
			require.Equal(t, []uint16{0, 1}, all[0].Parties)
			moved := states[1].Machine.Query(&meta.Command{Op: meta.OpLookup, Ino: root1, Name: "f"})
			require.Equal(t, test.moved, moved.Code == posix.OK)
			if test.done != nil && !slices.Contains(test.lacking, 0) {
				left := states[0].Machine.Query(&meta.Command{Op: meta.OpLookup, Ino: root0, Name: "f"})
				require.Equal(t, posix.ENOENT, left.Code)
			}
			for p := range states {
				require.Zero(t, meta.Undecided(states[p].Keys))
				v, err := StoredVector(states[p].Keys)
				require.NoError(t, err)
				require.Equal(t, uint64(1), v.Of(0).Histories())
			}
			again, err := Settle(states, short, nil, 6)
			require.NoError(t, err)
			require.Empty(t, again)
		})
	}
}

// The new history of a partition follows all that any state has seen of it.
func TestSettleBeginsANewHistory(t *testing.T) {
	a, b := newNode(t, 0), newNode(t, 1)
	b.vector.entries[0] = ask.Seen{History: 4<<32 | 1, Count: 99}
	states := []State{a.stateOf(), b.stateOf()}
	_, err := Settle(states, make([]bool, 2), nil, 5)
	require.NoError(t, err)
	for p := range states {
		v, err := StoredVector(states[p].Keys)
		require.NoError(t, err)
		require.Equal(t, ask.Seen{History: 5<<32 | 5, Count: a.Count(), Known: a.Count()}, v.Of(0))
	}
	require.Empty(t, mustContradictions(t, states))
}

func mustContradictions(t *testing.T, states []State) []string {
	found, err := Contradictions([]meta.Keys{states[0].Keys, states[1].Keys})
	require.NoError(t, err)
	return found
}

// A damaged store is an error, and other entries than OUTCOME have no decision.
func TestSettleOfDamage(t *testing.T) {
	keys := kv.NewMemory()
	machine, err := meta.New(keys, meta.Config{})
	require.NoError(t, err)
	keys.Set(commandKey(1), []byte{9})
	_, err = Settle([]State{{keys, machine}}, []bool{true}, nil, 0)
	require.ErrorContains(t, err, "partition 0")
	for _, payload := range [][]byte{nil, {2, 0, byte(EntryDecide)}, {2, 0, byte(EntryOutcome), 7}} {
		_, _, found := DecisionOf(payload)
		require.False(t, found)
	}
}
