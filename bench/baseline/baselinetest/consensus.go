package baselinetest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/pkg/multicast"
)

// TestOnPaxos tests the parts of a protocol that package paxos provides. Errors begin with name.
func TestOnPaxos(t *testing.T, p *Protocol, name string) {
	t.Run("ConfigAndReplay", func(t *testing.T) {
		l := p.newLoop(t, 1)
		require.ErrorContains(t, l.cores[0].Replay(nil), name+": process 1 cannot restart")
		_, err := p.New(9, nil)
		require.ErrorContains(t, err, name+": config: Self: process 9 is in none of the groups")
	})
	t.Run("Proposals", p.testProposals)
}

// testProposals: a message that cannot be multicast is refused, and a number is used once.
func (p *Protocol) testProposals(t *testing.T) {
	l := p.newLoop(t, 2)
	propose := func(m multicast.Message) Stats {
		l.out.Reset()
		l.cores[1].Step(&multicast.Input{Proposed: []multicast.Message{m}}, &l.out)
		return p.Stats(l.cores[1])
	}
	id := multicast.MessageID{Sender: 2, Seq: 1}
	require.EqualValues(t, 1, propose(multicast.Message{ID: id, Dest: []multicast.GroupID{7}}).Refused)
	require.EqualValues(t, 2, propose(multicast.Message{ID: id, Dest: []multicast.GroupID{0, 1}, Order: multicast.AtomicGlobal}).Refused)
	require.EqualValues(t, 3, propose(multicast.Message{ID: multicast.MessageID{Sender: 1, Seq: 1}, Dest: []multicast.GroupID{0}}).Refused)
	require.Equal(t, 0, propose(multicast.Message{ID: id, Dest: []multicast.GroupID{1}}).Kept)
	require.EqualValues(t, 1, propose(multicast.Message{ID: id, Dest: []multicast.GroupID{0, 1}}).Repeated)
}

// FuzzLoop feeds a leader and a follower, with a message under way, frames that another process can never
// send: nothing breaks.
func FuzzLoop(f *testing.F, p *Protocol) {
	l := p.newLoop(f, 2)
	for range 12 {
		for _, in := range l.in[0] {
			for _, frame := range in.Frames {
				f.Add(uint8(frame.Peer), frame.Data)
			}
		}
		l.load(1, 1, []byte("x"), 0, 1)
	}
	f.Fuzz(func(t *testing.T, from uint8, data []byte) {
		l := p.newLoop(t, 2)
		l.load(3, 1, []byte("x"), 0, 1)
		for i := range l.in[0][:2] {
			l.in[0][i].Frames = append(l.in[0][i].Frames, multicast.Frame{Peer: multicast.ProcessID(from % 8), Data: data})
		}
		l.steps(12)
	})
}
