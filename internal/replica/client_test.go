package replica

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
)

// someClient acts for one user and the group of the same number.
func someClient(name string, id uint32) *ask.Client {
	one := []posix.IDs{{First: id, Last: id}}
	return &ask.Client{Name: name, Authority: &posix.Authority{UIDs: one, GIDs: one}}
}

// as is one for a client.
func (f *fixture) as(from *ask.Client, q ask.Request) ask.Reply {
	f.t.Helper()
	f.from = from
	defer func() { f.from = nil }()
	return f.one(q)
}

// A session belongs to the name that opened it, also after a restart. The cluster's own may use all.
func TestSessionsBelongToNames(t *testing.T) {
	f := newFixture(t)
	owner, other := someClient("owner", 1000), someClient("other", 1000)
	require.Equal(t, ask.Answered, f.as(owner, ask.Request{Kind: ask.OpenSession, Session: 7}).Status)
	f.open(8)
	for range 2 {
		for session, from := range map[uint64]*ask.Client{7: other, 8: owner} {
			for _, q := range []ask.Request{
				{Kind: ask.OpenSession}, {Kind: ask.RenewSession}, {Kind: ask.CloseSession}, {Kind: ask.Update, Seq: 1, Command: (&meta.Command{Op: meta.OpSetAttr, Ino: 1}).Append(nil)},
			} {
				q.Session = session
				require.Equal(t, ask.UnknownSession, f.as(from, q).Status)
			}
		}
		for _, from := range []*ask.Client{owner, nil} {
			require.Equal(t, ask.Answered, f.as(from, ask.Request{Kind: ask.OpenSession, Session: 7}).Status)
			require.Equal(t, ask.Answered, f.as(from, ask.Request{Kind: ask.RenewSession, Session: 7}).Status)
		}
		f.restart()
	}
	require.Equal(t, ask.Answered, f.as(owner, ask.Request{Kind: ask.CloseSession, Session: 7}).Status)
	require.Equal(t, ask.UnknownSession, f.as(owner, ask.Request{Kind: ask.OpenSession, Session: 7}).Status, "it has ended for all")
}

// A request with the number of another client's update neither blocks that update nor gets its answer.
func TestUpdatesOfOthersAreNotJoined(t *testing.T) {
	f := newFixture(t)
	owner, other := someClient("owner", 1000), someClient("other", 1000)
	q := ask.Request{Kind: ask.Update, Session: 7, Seq: 1, Command: (&meta.Command{Op: meta.OpSetXattr, Ino: 1}).Append(nil)}
	require.Equal(t, ask.UnknownSession, f.as(other, q).Status, "before there is a session")
	require.Equal(t, ask.Answered, f.as(owner, ask.Request{Kind: ask.OpenSession, Session: 7}).Status)
	require.Equal(t, ask.Answered, f.as(owner, q).Status)
	require.Equal(t, ask.UnknownSession, f.as(other, q).Status)

	// The same while nothing is delivered yet, so that the owner of the session is unknown.
	f.hold = true
	open, first := ask.Request{Kind: ask.OpenSession, Session: 8}, q
	first.Session = 8
	f.from = owner
	f.step(open)
	f.from = other
	f.step(first)
	theirs := f.token
	f.from = owner
	f.step(first)
	f.hold = false
	replies := f.step()
	require.Equal(t, ask.UnknownSession, replies[theirs].Status)
	require.Equal(t, ask.Answered, replies[f.token].Status)
}

// A client with a malformed description by a server is refused, before anything is ordered.
func TestClientsThatAreRefused(t *testing.T) {
	f := newFixture(t)
	for _, bad := range []*ask.Client{
		{}, {Name: "a"}, {Authority: posix.Everybody()}, {Name: strings.Repeat("a", ask.MaxClientName+1), Authority: posix.Everybody()},
		{Name: "a", Authority: &posix.Authority{UIDs: []posix.IDs{{First: 2, Last: 1}}}},
	} {
		require.Equal(t, ask.Refused, f.as(bad, ask.Request{Kind: ask.OpenSession, Session: 7}).Status)
	}
	require.Zero(t, f.count())
}

// Queries are bound like updates, also those that wait.
func TestQueriesAreBound(t *testing.T) {
	f := newFixture(t)
	for _, c := range []meta.Command{{Op: meta.OpScan, Length: 99}, {Op: meta.OpGarbage, Blocks: []meta.Block{{}}}} {
		q := ask.Request{Kind: ask.Query, Fresh: c.Op == meta.OpGarbage, Command: c.Append(nil)}
		for from, want := range map[*ask.Client]posix.Code{someClient("a", 5): posix.EPERM, nil: posix.OK, {Name: "b", Authority: posix.Everybody()}: posix.OK} {
			r, err := meta.DecodeResult(f.as(from, q).Result)
			require.NoError(t, err)
			require.Equal(t, want, r.Code)
		}
	}
}
