package cross

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/order"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/turn"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// proposals returns the numbers of the updates that were proposed between partitions since the last call.
func (n *node) proposals() (seqs []uint64) {
	for _, m := range n.between.proposed {
		e, err := order.DecodeEntry(m.Payload)
		require.NoError(n.t, err)
		p, err := readProposal(e.Body)
		require.NoError(n.t, err)
		q, err := ask.DecodeRequest(p.request)
		require.NoError(n.t, err)
		seqs = append(seqs, q.Seq)
	}
	n.between.proposed = nil
	return seqs
}

// put submits a call.
func (n *node) put(call turn.Call) {
	q, err := ask.DecodeRequest(call.Data)
	require.NoError(n.t, err)
	c, err := meta.DecodeCommand(q.Command)
	require.NoError(n.t, err)
	n.Submit(call, q, c)
}

// The updates for one object go one after the other at the asked replica, the oldest first: an update that
// was aborted, and pauses, is not overtaken. Updates for other objects go on.
func TestUpdatesOfOneObject(t *testing.T) {
	n := newNode(t, 0)
	f, g := n.mknod("f"), n.mknod("g")
	for p := range uint16(3) {
		n.Received(multicast.ProcessID(p + 1))
	}
	for seq := range uint64(3) {
		n.put(rename(1+seq, 0, 1, "f", f))
	}
	n.put(rename(4, 0, 1, "g", g))
	n.step()
	sent := n.between.proposed
	require.Equal(t, []uint64{1, 4}, n.proposals())
	n.deliver(sent[0], 1)
	require.Empty(t, n.proposals(), "it is undecided")

	x := n.byID[sent[0].ID]
	require.NoError(t, n.execute(&order.Entry{Kind: EntryAbort, Body: appendName(nil, x.name(0))}))
	n.step()
	require.Empty(t, n.proposals(), "it pauses, and comes first all the same")
	n.mono += 2 * firstPause
	n.put(rename(5, 0, 1, "f", f))
	n.step()
	again := n.between.proposed
	require.Equal(t, []uint64{1}, n.proposals())
	p, err := readProposal(entryOf(t, again[0]).Body)
	require.NoError(t, err)
	require.Equal(t, x.age, p.age, "it keeps its age")

	n.deliver(again[0], 2)
	require.NoError(t, n.execute(&order.Entry{Kind: EntryAbort, Body: appendName(nil, n.byID[again[0].ID].name(0))}))
	n.Withdraw([]uint64{1})
	n.step()
	require.Equal(t, []uint64{2}, n.proposals(), "the next one by its time")
}

func entryOf(t *testing.T, m multicast.Message) *order.Entry {
	t.Helper()
	e, err := order.DecodeEntry(m.Payload)
	require.NoError(t, err)
	return &e
}

// An update that was aborted before is proposed although a younger command holds its objects: it waits in the
// order, and is the next. A new one waits at the asked replica.
func TestAnOldUpdateDoesNotYield(t *testing.T) {
	n := newNode(t, 0)
	f := n.mknod("f")
	for p := range uint16(3) {
		n.Received(multicast.ProcessID(p + 1))
	}
	n.put(rename(1, 0, 1, "f", f))
	n.step()
	first := n.between.proposed[0]
	n.proposals()
	n.deliver(first, 1)
	require.NoError(t, n.execute(&order.Entry{Kind: EntryAbort, Body: appendName(nil, n.byID[first.ID].name(0))}))

	other := newNode(t, 1) // its command came meanwhile
	younger := other.submit(rename(9, 1, 0, "f", other.mknod("f")))
	n.deliver(younger, 2)
	require.Equal(t, voted, n.byID[younger.ID].phase)
	n.put(rename(2, 0, 2, "f", f))
	n.mono += 2 * firstPause
	n.step()
	require.Equal(t, []uint64{1}, n.proposals())
}

// by opens a session for a client, and returns call as a call of this client in the session.
func (n *node) by(client string, session uint64, call turn.Call) turn.Call {
	call.From = &ask.Client{Name: client, Authority: posix.Everybody()}
	require.Equal(n.t, ask.Answered, n.sessions.Open(session, 0, call.From, 0))
	q, err := ask.DecodeRequest(call.Data)
	require.NoError(n.t, err)
	q.Session = session
	call.Data = q.Append(nil)
	return call
}

// An update of a client does not stand before those of another client unless it was aborted in the order: it
// may lack the permission, or wait for ever. An update without waiting clients stands before none.
func TestUpdatesOfOthersDoNotStandBefore(t *testing.T) {
	n := newNode(t, 0)
	f := n.mknod("f")
	for p := range uint16(3) {
		n.Received(multicast.ProcessID(p + 1))
	}
	for seq := range uint64(3) {
		n.put(n.by("intruder", 8, rename(1+seq, 0, 1, "f", f)))
	}
	n.put(n.by("victim", 9, rename(9, 0, 1, "f", f)))
	n.step()
	require.Equal(t, []uint64{1, 9}, n.proposals())

	n = newNode(t, 0)
	f = n.mknod("f")
	for p := range uint16(3) {
		n.Received(multicast.ProcessID(p + 1))
	}
	n.put(rename(1, 0, 1, "f", f))
	n.step()
	require.Equal(t, []uint64{1}, n.proposals())
	n.Withdraw([]uint64{1})
	n.put(rename(2, 0, 2, "f", f))
	n.step()
	require.Equal(t, []uint64{2}, n.proposals(), "the first may be under way for as long as its parties are cut off")
}
