package replica

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/internal/turn"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// A replica that one of its two orders has replaced sends its waiting and its new clients away. It continues
// in the other order until it is replaced there, too.
func TestReplacedReplicaSendsItsClientsAway(t *testing.T) {
	for _, between := range []bool{false, true} {
		f := newFixture(t)
		f.open(7)
		f.hold = true
		query, fresh, create := getAttr(1), getAttr(1), mknod("a")
		query.Vector = ask.Vector{{Count: 99}}
		fresh.Fresh = true
		waiting := []ask.Request{query, fresh, {Kind: ask.Update, Session: 7, Seq: 1, Command: create.Append(nil)}}
		require.Empty(t, f.step(waiting...))
		first := f.token - uint64(len(waiting)) + 1

		f.core.retired, f.between.retired = !between, between
		var out turn.Output
		f.Step(&turn.Input{}, &out)
		require.False(t, out.Retired, "the other order may still need it")
		refused := map[uint64]ask.Outcome{}
		for _, c := range out.Replies {
			reply, err := ask.DecodeReply(c.Data)
			require.NoError(t, err)
			refused[c.Token] = reply.Status
		}
		require.Equal(t, map[uint64]ask.Outcome{first: ask.Replaced, first + 1: ask.Replaced, first + 2: ask.Replaced}, refused)
		for _, q := range append(waiting, ask.Request{Kind: ask.RenewSession, Session: 7}) {
			require.Equal(t, ask.Replaced, f.one(q).Status)
		}
		require.Equal(t, ask.Answered, f.one(ask.Request{Kind: ask.AskStatus}).Status)

		f.core.retired, f.between.retired = true, true
		out.Reset()
		f.Step(&turn.Input{}, &out)
		require.True(t, out.Retired)
		require.Empty(t, out.Replies)
	}
}

// In a chain of replacements, each replacement names the last process, since the processes before it may be
// gone.
func TestLastOfAChainComesIn(t *testing.T) {
	f := newFixture(t)
	f.Replace(multicast.Replacement{Old: 1, New: 7})
	f.Replace(multicast.Replacement{Old: 7, New: 8})
	f.step()
	want := []multicast.Replacement{{Old: 1, New: 8}, {Old: 7, New: 8}}
	require.Equal(t, want, f.core.replaces)
	require.Equal(t, want, f.between.replaces)
}
