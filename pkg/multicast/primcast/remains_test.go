package primcast

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/pkg/multicast"
)

// Of two logs, the one of the higher epoch counts, and the longer one of the same epoch (line 66).
func TestRemainsCompare(t *testing.T) {
	in := func(epoch uint64, leader multicast.ProcessID, length uint64) *Remains {
		return &Remains{Epoch: Epoch{Number: epoch, Leader: leader}, Length: length}
	}
	require.Negative(t, in(1, 1, 9).Compare(in(2, 1, 3)))
	require.Negative(t, in(2, 1, 9).Compare(in(2, 2, 3)))
	require.Positive(t, in(2, 1, 9).Compare(in(2, 1, 8)))
	require.Zero(t, in(2, 1, 9).Compare(in(2, 1, 9)))
}

// The remains of a process are those of its log: a process that has replayed it has all entries, in their
// order, and knows whether some processes are a quorum.
func TestRemains(t *testing.T) {
	live := single(t, 1, 3)
	for i := range uint64(5) {
		live.propose(t, i+1)
	}
	dead := single(t, 1, 3)
	for _, r := range live.records {
		require.NoError(t, dead.core.Replay(r))
	}
	remains := RemainsOf(dead.core)
	require.Equal(t, Remains{Epoch: Epoch{1, 1}, Latest: Epoch{1, 1}, Length: 5, core: dead.core}, remains)
	held := remains.Held()
	require.Len(t, held, 5)
	require.True(t, slices.IsSortedFunc(held, func(a, b multicast.Delivery) int { return a.Position().Compare(b.Position()) }))
	of := func(left ...multicast.ProcessID) func(multicast.ProcessID) bool {
		return func(p multicast.ProcessID) bool { return slices.Contains(left, p) }
	}
	require.True(t, remains.Remember(of(1, 3)))
	require.False(t, remains.Remember(of(1)))
	require.False(t, remains.Remember(of(1, 7)))
	amnesiac, err := New(Config{Self: 1, Groups: dead.core.config.Groups, Amnesiac: true})
	require.NoError(t, err)
	lost := RemainsOf(amnesiac)
	require.True(t, lost.Amnesiac)
}

// lone is a process that leads its group, whose other members are silent.
type lone struct {
	core    *Core
	records [][]byte
}

func single(t *testing.T, self multicast.ProcessID, members int) *lone {
	g := multicast.Group{ID: 4}
	for p := range members {
		g.Members = append(g.Members, multicast.ProcessID(p+1))
	}
	core, err := New(Config{Self: self, Groups: []multicast.Group{g}})
	require.NoError(t, err)
	return &lone{core: core}
}

// propose has the process propose a message, which it appends to T.
func (l *lone) propose(t *testing.T, seq uint64) {
	t.Helper()
	var out multicast.Output
	in := multicast.Input{Proposed: []multicast.Message{{ID: multicast.MessageID{Sender: 1, Seq: seq}, Dest: []multicast.GroupID{4}, Payload: []byte{byte(seq)}}}}
	l.core.Step(&in, &out)
	l.records = append(l.records, out.Records...)
	for _, f := range out.Frames { // the process receives its own messages
		if f.Peer != 1 {
			continue
		}
		var own multicast.Output
		l.core.Step(&multicast.Input{Frames: []multicast.Frame{f}}, &own)
		l.records = append(l.records, own.Records...)
	}
}
