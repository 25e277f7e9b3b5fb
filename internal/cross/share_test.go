package cross

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/turn"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// A bound client gets its share of the waiting and undecided updates, including updates with calls that it
// has given up. Other clients get theirs.
func TestUndecidedUpdatesOfAClientAreBounded(t *testing.T) {
	n := newNode(t, 0)
	n.requests.maxPending = 2 * undecidedParts
	narrow := []posix.IDs{{First: 7, Last: 7}}
	authority := &posix.Authority{UIDs: narrow, GIDs: narrow}
	for i, name := range []string{"laptop", "other"} {
		require.Equal(t, ask.Answered, n.sessions.Open(uint64(8+i), 0, &ask.Client{Name: name, Authority: authority}, 0))
	}
	for p := range uint16(3) { // all are in reach
		n.Received(multicast.ProcessID(p + 1))
	}
	seq := uint64(0)
	submit := func(session uint64, from *ask.Client) (token uint64, overloaded bool) {
		seq++
		c := meta.Command{
			Op: meta.OpRename, Ino: posix.MakeIno(0, 1), Name: fmt.Sprint(seq), NewParent: posix.MakeIno(1, 1), NewName: fmt.Sprint(seq),
			Child: n.mknod(fmt.Sprint(seq)), Target: 1,
		}
		q := ask.Request{Kind: ask.Update, Session: session, Seq: seq, Dest: []uint16{0, 1}, Command: c.Append(nil)}
		n.answered = nil
		n.Submit(turn.Call{Token: seq, Data: q.Append(nil), From: from}, q, c)
		n.step()
		return seq, len(n.answered) == 1 && n.answered[0].Outcome == ask.Overloaded
	}
	laptop := &ask.Client{Name: "laptop", Authority: authority}
	first, overloaded := submit(8, laptop)
	require.False(t, overloaded)
	_, overloaded = submit(8, laptop)
	require.False(t, overloaded)
	_, overloaded = submit(8, laptop)
	require.True(t, overloaded)

	require.Len(t, n.between.proposed, 2)
	n.deliver(n.between.proposed[0], 1)
	n.Withdraw([]uint64{first})
	_, overloaded = submit(8, laptop)
	require.True(t, overloaded, "the first is undecided, also if nobody waits for it")
	_, overloaded = submit(9, &ask.Client{Name: "other", Authority: authority})
	require.False(t, overloaded)
	for range 10 {
		_, overloaded = submit(7, nil)
		require.False(t, overloaded, "servers and clients with user 0 are not bounded")
	}
	n.requests.queue.drop(n.requests.queue.proposed[n.between.proposed[1].ID])
	_, overloaded = submit(8, laptop)
	require.False(t, overloaded, "what has ended is not counted")
}
