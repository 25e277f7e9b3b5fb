package replica

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/internal/kv"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/order"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/turn"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// payload returns an encoded entry.
func payload(kind order.Kind, body []byte) []byte {
	core := &listCore{list: new([]multicast.Delivery), member: &member{cluster: &cluster{}}}
	o := order.New(1, 0, core, core, 0)
	o.Begin(&multicast.Input{}, nil)
	o.Propose(order.Entry{Kind: kind, Body: body})
	o.Step(false, &multicast.Output{})
	return (*core.list)[0].Payload
}

// foreign returns entries of another version.
func foreign() map[string][]byte {
	good := payload(entryBarrier, ask.Seen{}.Append(nil))
	unknown := ask.Request{Kind: ask.Update, Session: 7, Seq: 9, Command: []byte{255}}
	query := ask.Request{Kind: ask.Update, Session: 7, Seq: 9, Command: (&meta.Command{Op: meta.OpGetAttr, Ino: 1}).Append(nil)}
	return map[string][]byte{
		"nothing":               nil,
		"another version":       append([]byte{good[0] + 1}, good[1:]...),
		"an unknown kind":       payload(30, nil),
		"the last kind of all":  payload(127, nil),
		"a malformed barrier":   payload(entryBarrier, []byte{99}),
		"a malformed request":   payload(entryRequest, []byte{0, 99}),
		"an unknown operation":  payload(entryRequest, encodeRequest(turn.Call{Data: unknown.Append(nil)})),
		"a query as an update":  payload(entryRequest, encodeRequest(turn.Call{Data: query.Append(nil)})),
		"an unknown cross kind": payload(60, nil),
	}
}

// committed returns a store with the committed entries: a process that ends loses the rest.
func committed(t *testing.T, keys *kv.Store) *kv.Store {
	t.Helper()
	again := kv.NewMemory()
	for k, v := range contents(keys) {
		again.Set([]byte(k), []byte(v))
	}
	require.NoError(t, again.Commit(true))
	return again
}

// A replica that meets an entry of another version stops: neither this entry nor a later one is answered or
// stored. A newer version continues from there.
func TestEntriesOfAnotherVersionStopTheReplica(t *testing.T) {
	for name, bad := range foreign() {
		t.Run(name, func(t *testing.T) {
			stopsAt(t, bad)
		})
	}
}

func stopsAt(t *testing.T, bad []byte) {
	t.Helper()
	f := newFixture(t)
	f.open(7)
	_, made := f.do(7, 1, mknod("a"))
	require.Equal(t, posix.OK, made.Code)
	before := committed(t, f.keys)
	f.hold = true
	c := mknod("b")
	f.step(ask.Request{Kind: ask.Update, Session: 7, Seq: 2, Done: 1, Command: c.Append(nil)})
	stop := multicast.Delivery{Message: multicast.Message{
		ID: multicast.MessageID{Sender: 2, Seq: 1}, Dest: []multicast.GroupID{0}, Payload: bad,
	}, Final: f.core.last + 1}
	deliveries := append([]multicast.Delivery{stop}, f.kept...)
	deliveries[1].Final = stop.Final + 1
	f.core.last = deliveries[1].Final
	replies, err := f.Apply(&turn.Output{Output: multicast.Output{Deliveries: deliveries}})
	require.ErrorIs(t, err, order.ErrVersion)
	require.ErrorContains(t, err, "entry")
	require.Empty(t, replies)

	// The process starts again with its committed state, and gets the same deliveries, with an entry that it
	// knows.
	f.keys = before
	f.restart()
	require.Equal(t, posix.ENOENT, f.code(lookup(posix.Root, "b")))
	deliveries[0].Payload = payload(entryBarrier, ask.Seen{}.Append(nil))
	f.kept, f.hold = deliveries, false
	f.step()
	require.Equal(t, posix.OK, f.code(lookup(posix.Root, "b")), "nothing behind it is lost")
	_, again := f.do(7, 2, mknod("b"))
	require.Equal(t, posix.OK, again.Code)
}
