package replica

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/internal/posix"
)

// A bound client gets so many sessions and held inodes, and no more. Other clients are not affected, and the
// client can use released quota again.
func TestQuotaOfABoundClient(t *testing.T) {
	f := newFixture(t)
	narrow := []posix.IDs{{First: 7, Last: 7}}
	bound := &ask.Client{Name: "laptop", Authority: &posix.Authority{UIDs: narrow, GIDs: narrow}}
	f.from = bound
	for id := uint64(1); id <= MaxSessionsOfClient; id++ {
		f.open(id)
	}
	one := func(q ask.Request) ask.Outcome { return f.one(q).Status }
	next := ask.Request{Kind: ask.OpenSession, Session: 1000}
	refused := f.one(next)
	require.Equal(t, ask.Refused, refused.Status)
	require.Contains(t, string(refused.Result), "64 sessions")
	f.open(1) // a repeated opening is confirmed
	f.restart()
	require.Equal(t, ask.Refused, one(next), "also after a restart")

	f.from = nil
	f.open(2000)
	f.from = &ask.Client{Name: "other", Authority: bound.Authority}
	f.open(3000)
	f.from = bound
	require.Equal(t, ask.Answered, one(ask.Request{Kind: ask.CloseSession, Session: 1}))
	require.Equal(t, ask.Answered, one(next))

	held := make([]posix.Ino, ask.MaxHeld)
	for i := range held {
		held[i] = posix.Ino(i + 100)
	}
	renew := func(session uint64, n int) ask.Outcome {
		return one(ask.Request{Kind: ask.RenewSession, Session: session, Held: held[:n]})
	}
	require.Equal(t, ask.Answered, renew(2, len(held)))
	require.Equal(t, ask.Answered, renew(3, len(held)))
	require.Equal(t, ask.Refused, renew(4, 1))
	require.Equal(t, ask.Answered, renew(4, 0))
	require.Equal(t, ask.Answered, renew(3, len(held)), "what it has it keeps")
	require.Equal(t, ask.Answered, renew(3, 10))
	require.Equal(t, ask.Answered, renew(4, 10))
}

// Proposed openings count: many at once open no more sessions than one after the other.
func TestQuotaCountsWhatIsProposed(t *testing.T) {
	f := newFixture(t)
	f.cfg.MaxPending = 4096
	narrow := []posix.IDs{{First: 7, Last: 7}}
	f.from = &ask.Client{Name: "laptop", Authority: &posix.Authority{UIDs: narrow, GIDs: narrow}}
	var all []ask.Request
	for id := range uint64(200) {
		all = append(all, ask.Request{Kind: ask.OpenSession, Session: id + 1})
	}
	outcomes := map[ask.Outcome]int{}
	for _, reply := range f.step(all...) {
		outcomes[reply.Status]++
	}
	require.Equal(t, map[ask.Outcome]int{ask.Answered: MaxSessionsOfClient, ask.Refused: 200 - MaxSessionsOfClient}, outcomes)
	require.Empty(t, f.updates.shares)
}
