package replica

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/internal/delegation"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/order"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/turn"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// execute executes entries of another replica in one step.
func (f *fixture) execute(payloads ...[]byte) {
	for _, p := range payloads {
		f.core.last++
		f.kept = append(f.kept, multicast.Delivery{Message: multicast.Message{
			ID: multicast.MessageID{Sender: 2, Seq: uint64(f.core.last)}, Dest: []multicast.GroupID{0}, Payload: p,
		}, Final: f.core.last})
	}
	f.step()
}

// proposed is a step whose proposals are not delivered. It returns their payloads.
func (f *fixture) proposed(kind order.Kind) (payloads [][]byte) {
	f.t.Helper()
	f.hold = true
	f.step()
	for i := range f.kept {
		e, err := order.DecodeEntry(f.kept[i].Payload)
		require.NoError(f.t, err)
		require.Equal(f.t, kind, e.Kind)
		payloads = append(payloads, f.kept[i].Payload)
	}
	f.hold, f.kept = false, nil
	return payloads
}

// holding is a fixture whose session 7 holds an existing directory.
type holding struct {
	*fixture
	dir        posix.Ino
	seq, asked uint64
	ops        uint64 // of the log of session 7
	recalls    posix.Time
}

func newHolding(t *testing.T) *holding {
	h := &holding{fixture: newFixture(t), seq: 1}
	h.open(7)
	_, made := h.do(7, 1, meta.Command{Op: meta.OpMknod, Ino: posix.Root, Name: "d", Mode: posix.TypeDir | 0o755})
	h.dir = made.Attr.Ino
	h.execute(h.entryOf(h.get()))
	require.Equal(t, uint64(7), h.delegations.Holder(h.dir))
	return h
}

// entryOf is the entry of an update of session 7.
func (h *holding) entryOf(c meta.Command) []byte {
	h.seq++
	q := ask.Request{Kind: ask.Update, Session: 7, Seq: h.seq, Done: h.seq - 1, Command: c.Append(nil)}
	return payload(entryRequest, encodeRequest(turn.Call{Data: q.Append(nil)}))
}

func (h *holding) get() meta.Command {
	h.asked++
	return meta.Command{Op: meta.OpDelegate, Ino: h.dir, Offset: 1, Length: h.asked, Flags: meta.NumberGrant}
}

func (h *holding) giveBack() meta.Command {
	h.ops++
	x := delegation.Batch{Log: 1, First: h.ops, Ops: []delegation.Op{{Return: h.dir}}}
	return meta.Command{Op: meta.OpBatch, Data: x.Append(nil)}
}

// recallEntry is the entry of a recall by a bound client, which makes no directory hot.
func (h *holding) recallEntry() []byte {
	h.recalls += 5e9
	return payload(entryRecall, encodeRecall(0, h.dir, h.recalls))
}

// A replica proposes to end the grant of a holder that is silent. Before this is ordered, the holder returns
// the directory and gets it again. The late entry does not end the new grant.
func TestLateRevoke(t *testing.T) {
	h := newHolding(t)
	h.execute(h.recallEntry())
	h.step()
	h.mono += RevokeAfter
	late := h.proposed(entryRevoke)
	require.Len(t, late, 1)
	h.execute(h.entryOf(h.giveBack()))
	require.Zero(t, h.delegations.Holder(h.dir))
	h.execute(h.entryOf(h.get()))
	for range 2 {
		h.execute(late...)
		require.Equal(t, uint64(7), h.delegations.Holder(h.dir), "nobody has recalled it")
		h.restart()
	}
	h.execute(h.recallEntry())
	require.NotEmpty(t, h.delegations.Revocations())
	h.execute(late...)
	require.Equal(t, uint64(7), h.delegations.Holder(h.dir), "its holder has time to return it")
	h.mono += RevokeAfter
	h.step()
	require.Zero(t, h.delegations.Holder(h.dir))
}

// A holder returns a directory and gets it again, and that is recalled, between two looks of a replica at the
// recalled directories. The holder has the whole time to return it.
func TestEachGrantHasItsTime(t *testing.T) {
	h := newHolding(t)
	h.execute(h.recallEntry())
	h.step()
	h.mono += RevokeAfter - time.Second
	h.execute(h.entryOf(h.giveBack()), h.entryOf(h.get()), h.recallEntry())
	require.Len(t, h.delegations.Revocations(), 1)
	h.step()
	h.mono += RevokeAfter - time.Second
	require.Empty(t, h.proposed(entryRevoke))
	h.mono += time.Second
	require.Len(t, h.proposed(entryRevoke), 1)
}
