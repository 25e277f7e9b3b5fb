package replica

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/session"
)

func blockOf(session, counter uint64) posix.BlockID { return posix.MakeBlockID(0, session, counter) }

func names(op meta.Op, blocks []posix.BlockID) meta.Command {
	c := meta.Command{Op: op}
	for _, id := range blocks {
		c.Blocks = append(c.Blocks, meta.Block{ID: id})
	}
	return c
}

func (f *fixture) garbage(blocks ...posix.BlockID) []bool {
	f.t.Helper()
	c := names(meta.OpGarbage, blocks)
	r, err := meta.DecodeResult(f.one(ask.Request{Kind: ask.Query, Fresh: true, Command: c.Append(nil)}).Result)
	require.NoError(f.t, err)
	is, err := meta.DecodeGarbage(r.Data, len(blocks))
	require.NoError(f.t, err)
	return is
}

func (f *fixture) renew(session, horizon uint64) {
	f.t.Helper()
	require.Equal(f.t, ask.Answered, f.one(ask.Request{Kind: ask.RenewSession, Session: session, Horizon: horizon}).Status)
}

func writeOf(ino posix.Ino, id posix.BlockID) meta.Command {
	return meta.Command{Op: meta.OpWrite, Ino: ino, Blocks: []meta.Block{{ID: id, Length: 9}}, Length: 9}
}

// A block is garbage once no extent names it and no write can name it any more: by the horizon of its
// session, or its end.
func TestGarbage(t *testing.T) {
	f := newFixture(t)
	f.open(5)
	_, m := f.do(5, 1, mknod("f"))
	ino := m.Attr.Ino
	require.Equal(t, []bool{false, true}, f.garbage(blockOf(5, 1), blockOf(6, 1)), "no such session: it has ended, as it was open when the block was put")
	_, m = f.do(5, 2, writeOf(ino, blockOf(5, 1)))
	require.Equal(t, posix.OK, m.Code)
	_, m = f.do(5, 3, writeOf(ino, blockOf(6, 1)))
	require.Equal(t, posix.EINVAL, m.Code, "of another session")

	f.renew(5, 4)
	f.renew(5, 2)
	f.restart()
	require.Equal(t, []bool{false, true, true, false}, f.garbage(blockOf(5, 1), blockOf(5, 2), blockOf(5, 3), blockOf(5, 4)))
	_, m = f.do(5, 4, writeOf(ino, blockOf(5, 3)))
	require.Equal(t, posix.EINVAL, m.Code, "what is garbage stays garbage")
	_, m = f.do(5, 5, writeOf(ino, blockOf(5, 4)))
	require.Equal(t, posix.OK, m.Code)
	require.Equal(t, []bool{false, false}, f.garbage(blockOf(5, 1), blockOf(5, 4)), "a dropped one is the queue's")
	_, m = f.do(5, 6, names(meta.OpCollected, []posix.BlockID{blockOf(5, 1)}))
	require.EqualValues(t, 1, m.Number)
	require.Equal(t, []bool{true}, f.garbage(blockOf(5, 1)), "a copy that came late")

	require.Equal(t, ask.Answered, f.one(ask.Request{Kind: ask.CloseSession, Session: 5}).Status)
	require.Equal(t, []bool{false, true}, f.garbage(blockOf(5, 4), blockOf(5, 5)))
	require.Equal(t, ask.UnknownSession, f.one(ask.Request{Kind: ask.OpenSession, Session: 5}).Status)
}

// A session that expires leaves garbage behind.
func TestGarbageOfAnExpiredSession(t *testing.T) {
	f := newFixture(t)
	f.open(5)
	require.Equal(t, []bool{false}, f.garbage(blockOf(5, 1)))
	f.mono += 2 * session.DefaultLease
	f.step()
	require.Equal(t, []bool{true}, f.garbage(blockOf(5, 1)))
}

// An old state may not know the session yet: the query must be fresh.
func TestGarbageIsAskedAsOfNow(t *testing.T) {
	f := newFixture(t)
	f.open(5)
	c := names(meta.OpGarbage, []posix.BlockID{blockOf(5, 1)})
	p := f.one(ask.Request{Kind: ask.Query, Command: c.Append(nil)})
	require.Equal(t, ask.Refused, p.Status)
	require.Contains(t, string(p.Result), "must be fresh")

	f.hold = true
	open := ask.Request{Kind: ask.OpenSession, Session: 6}
	f.step(open)
	c = names(meta.OpGarbage, []posix.BlockID{blockOf(6, 1)})
	f.step(ask.Request{Kind: ask.Query, Fresh: true, Command: c.Append(nil)})
	f.hold = false
	f.mono += time.Millisecond
	r, err := meta.DecodeResult(f.step()[f.token].Result)
	require.NoError(t, err)
	require.Equal(t, []byte{0}, r.Data, "ordered before the answer")
}
