package classic_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/bench/baseline/classic"
	"github.com/globalfs/globalfs/bench/baseline/paxos"
	"github.com/globalfs/globalfs/pkg/multicast"
)

func TestConfigAndReplay(t *testing.T) {
	l := newLoop(t, 1)
	require.ErrorContains(t, l.cores[0].Replay(nil), "classic: process 1 cannot restart")
	_, err := classic.New(paxos.Config{Self: 9})
	require.ErrorContains(t, err, "classic: config: Self: process 9 is in none of the groups")
}

// TestProposals: what cannot be multicast is refused, and a number is used once.
func TestProposals(t *testing.T) {
	l := newLoop(t, 2)
	propose := func(m multicast.Message) paxos.Stats {
		l.out.Reset()
		l.cores[1].Step(&multicast.Input{Proposed: []multicast.Message{m}}, &l.out)
		return l.cores[1].Stats()
	}
	id := multicast.MessageID{Sender: 2, Seq: 1}
	require.EqualValues(t, 1, propose(multicast.Message{ID: id, Dest: []multicast.GroupID{7}}).Refused)
	require.EqualValues(t, 2, propose(multicast.Message{ID: id, Dest: []multicast.GroupID{0, 1}, Order: multicast.AtomicGlobal}).Refused)
	require.EqualValues(t, 3, propose(multicast.Message{ID: multicast.MessageID{Sender: 1, Seq: 1}, Dest: []multicast.GroupID{0}}).Refused)
	require.Equal(t, 0, propose(multicast.Message{ID: id, Dest: []multicast.GroupID{1}}).Kept)
	require.EqualValues(t, 1, propose(multicast.Message{ID: id, Dest: []multicast.GroupID{0, 1}}).Repeated)
}

// FuzzStep feeds a leader and a follower, with a message under way, what another process can never say: nothing breaks.
func FuzzStep(f *testing.F) {
	l := newLoop(f, 2)
	for range 12 {
		for _, in := range l.in[0] {
			for _, frame := range in.Frames {
				f.Add(uint8(frame.Peer), frame.Data)
			}
		}
		l.round(1, []byte("x"), 0, 1)
	}
	f.Fuzz(func(t *testing.T, from uint8, data []byte) {
		l := newLoop(t, 2)
		for range 3 {
			l.round(1, []byte("x"), 0, 1)
		}
		for p := range l.in[0][:2] {
			l.in[0][p].Frames = append(l.in[0][p].Frames, multicast.Frame{Peer: multicast.ProcessID(from % 8), Data: data})
		}
		for range 12 {
			l.round(0, nil)
		}
	})
}
