package replica

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/turn"
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

// A session of a bound client gets a bounded number of locks, also after a restart. It can lock again after
// an unlock, and a second later. Other sessions are not affected.
func TestQuotaOfLocks(t *testing.T) {
	f := newFixture(t)
	f.from = someClient("laptop", 1)
	f.open(1)
	f.open(2)
	f.from = nil
	f.open(3)
	seq, files, executed := map[uint64]uint64{}, []posix.Ino(nil), uint64(0)
	do := func(session uint64, c meta.Command) posix.Code {
		seq[session]++
		p, m := f.do(session, seq[session], c)
		require.Equal(t, ask.Answered, p.Status)
		if session == 1 && m.Code == posix.OK {
			executed = seq[session]
		}
		return m.Code
	}
	const perFile = 64 // a lock costs more on a file with many
	for i := range MaxLocksOfSession/perFile + 1 {
		seq[3]++
		c := mknod(fmt.Sprint(i))
		_, m := f.do(3, seq[3], c)
		require.Equal(t, posix.OK, m.Code)
		files = append(files, m.Attr.Ino)
		require.Equal(t, posix.OK, do(3, meta.Command{Op: meta.OpSetAttr, Ino: m.Attr.Ino, Set: meta.SetMode, Attr: posix.Attr{Mode: posix.TypeRegular | 0o666}}))
	}
	f.from = someClient("laptop", 1)
	lock := func(session uint64, n int, flags uint32) posix.Code {
		return do(session, meta.Command{Op: meta.OpLock, Ino: files[n/perFile], Offset: uint64(2 * n), Length: 1, Owner: 1, Flags: flags})
	}
	wide := meta.Command{Op: meta.OpLock, Ino: files[len(files)-1], Length: 10, Owner: 1}
	require.Equal(t, posix.OK, do(1, wide))
	n := 0
	for ; lock(1, n, 0) == posix.OK; n++ {
		require.Less(t, n, MaxLocksOfSession)
	}
	require.GreaterOrEqual(t, n, MaxLocksOfSession/2)
	for range 20 { // counts
		f.mono += countLocksEvery
		for ; lock(1, n, 0) == posix.OK; n++ {
			require.Less(t, n, MaxLocksOfSession)
		}
	}
	require.Greater(t, n, MaxLocksOfSession-4)
	seq[1] = executed - 1
	require.Equal(t, posix.OK, lock(1, n-1, 0), "a retry of an executed update")
	seq[1] += 100
	require.Equal(t, posix.OK, lock(2, MaxLocksOfSession+1, 0), "another session")
	f.restart()
	require.Equal(t, posix.ENOLCK, lock(1, n, 0))
	unlock := meta.Command{Op: meta.OpLock, Ino: files[0], Owner: 1, Flags: meta.LockUnlock}
	part := wide
	part.Offset, part.Length, part.Flags = 5, 1, meta.LockUnlock
	require.Equal(t, posix.ENOLCK, do(1, part), "it divides a lock")
	require.Equal(t, posix.OK, lock(1, 1, meta.LockUnlock))
	require.Equal(t, posix.OK, do(1, unlock))
	require.Equal(t, posix.ENOLCK, lock(1, n, 0), "counted just now")
	f.mono += countLocksEvery
	require.Equal(t, posix.OK, do(1, part))
	require.Equal(t, posix.OK, lock(1, n, 0))
	for range MaxLocksOfSession/2 + 1 { // much room is counted again at once
		require.Equal(t, posix.OK, lock(2, 0, 0))
		require.Equal(t, posix.OK, do(2, unlock))
	}
}

// A repeated lock update that waits is not refused, because its first copy may be executed later.
func TestQuotaOfLocksSparesCopies(t *testing.T) {
	f := newFixture(t)
	f.from = someClient("laptop", 1)
	f.open(1)
	u := update{call: turn.Call{From: f.from}, query: ask.Request{Kind: ask.Update, Session: 1, Seq: 1}}
	u.command = meta.Command{Op: meta.OpLock, Session: 1, Authority: &posix.Authority{}}
	f.updates.locks[1] = lockRoom{counted: f.now.Mono}
	require.True(t, hasTooManyLocks(f.Replica, &u))
	f.updates.blocked = []*update{&u}
	require.False(t, hasTooManyLocks(f.Replica, &u))
	f.updates.blocked = nil
}
