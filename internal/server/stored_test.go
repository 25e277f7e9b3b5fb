package server

import (
	"context"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/internal/block"
	"github.com/globalfs/globalfs/internal/driver"
	"github.com/globalfs/globalfs/internal/kv"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/recent"
	"github.com/globalfs/globalfs/internal/replica"
	"github.com/globalfs/globalfs/internal/session"
	"github.com/globalfs/globalfs/internal/transport"
	"github.com/globalfs/globalfs/pkg/multicast"
	"github.com/globalfs/globalfs/pkg/multicast/primcast"
)

// lone is a server with one replica, the only one of its partition. Tests set the lengths that the storage
// reports.
type lone struct {
	t *testing.T
	*Server
	h       *hosted
	lengths func(ids []block.ID) []uint32
}

func newLone(t *testing.T) *lone {
	groups := []multicast.Group{{ID: 0, Members: []multicast.ProcessID{1}}}
	local, err := primcast.New(primcast.Config{Self: 1, Groups: groups})
	require.NoError(t, err)
	cross, err := primcast.New(primcast.Config{Self: 1, Groups: groups})
	require.NoError(t, err)
	keys := kv.NewMemory()
	machine, err := meta.New(keys, meta.Config{})
	require.NoError(t, err)
	r, err := replica.New(replica.Config{Self: 1, Groups: groups, Incarnation: 1}, local, cross, keys, machine)
	require.NoError(t, err)
	network := transport.NewLocal(nil)
	t.Cleanup(func() { require.NoError(t, network.Close()) })
	links, err := network.Endpoint(1).Links(1)
	require.NoError(t, err)

	l := &lone{t: t, h: &hosted{
		process: 1, replica: r, driver: driver.New(1, r, links, &silent{}, driver.NewSystemClock()), opened: recent.New[session.Name, struct{}](maxOpened),
	}}
	l.Server = &Server{cfg: Config{
		Logger:  slog.New(slog.DiscardHandler),
		Lengths: func(_ context.Context, _ uint16, ids []block.ID) ([]uint32, error) { return l.lengths(ids), nil },
	}}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- l.h.driver.Run(ctx) }()
	t.Cleanup(func() { stop(); require.NoError(t, <-ended) })
	return l
}

// ask asks the replica as its server does.
func (l *lone) ask(client *ask.Client, q ask.Request) ask.Reply {
	l.t.Helper()
	request := q.Append(nil)
	answer := l.checkStored(l.t.Context(), l.h, client, request)
	if answer == nil {
		var err error
		answer, err = l.h.driver.Handle(l.t.Context(), client, request)
		require.NoError(l.t, err)
	}
	reply, err := ask.DecodeReply(answer)
	require.NoError(l.t, err)
	return reply
}

func (l *lone) open(client *ask.Client, session uint64) {
	l.t.Helper()
	require.Equal(l.t, ask.Answered, l.ask(client, ask.Request{Kind: ask.OpenSession, Session: session}).Status)
}

var bound = &ask.Client{Name: "narrow", Authority: &posix.Authority{UIDs: []posix.IDs{{First: 7, Last: 7}}, GIDs: []posix.IDs{{First: 7, Last: 7}}}}

// A client puts a block for a session that it opens later. The session opens, and a sweep deletes the block,
// after the server has found the block and before the write is ordered. The write has no effect.
func TestBlocksOfAWriteCountOnlyInAnOpenSession(t *testing.T) {
	l := newLone(t)
	l.open(nil, 1)
	create := meta.Command{Op: meta.OpMknod, Ino: posix.Root, Name: "f", Mode: posix.TypeRegular | 0o666}
	reply := l.ask(nil, ask.Request{Kind: ask.Update, Session: 1, Seq: 1, Command: create.Append(nil)})
	made, err := meta.DecodeResult(reply.Result)
	require.NoError(t, err)
	require.Equal(t, posix.OK, made.Code)

	write := func(session uint64) ask.Request {
		b := meta.Block{ID: posix.MakeBlockID(0, session, 1<<24), Length: 100}
		c := meta.Command{Op: meta.OpWrite, Cred: posix.Cred{UID: 7, GID: 7}, Ino: made.Attr.Ino, Blocks: []meta.Block{b}, Length: 100}
		return ask.Request{Kind: ask.Update, Session: session, Seq: 1, Command: c.Append(nil)}
	}
	asked := 0
	l.lengths = func([]block.ID) []uint32 {
		asked++
		l.open(bound, 9)
		return []uint32{100}
	}
	require.Equal(t, ask.UnknownSession, l.ask(bound, write(9)).Status)
	require.Zero(t, asked, "storage must not look for the blocks of a session that is not open")

	l.open(bound, 10)
	for range 2 { // the second time the write is a repetition, and its block may have been deleted
		reply = l.ask(bound, write(10))
		require.Equal(t, ask.Answered, reply.Status)
		result, err := meta.DecodeResult(reply.Result)
		require.NoError(t, err)
		require.Equal(t, posix.OK, result.Code)
		l.lengths = func([]block.ID) []uint32 { return []uint32{0} }
	}
	require.Equal(t, ask.UnknownSession, l.ask(&ask.Client{Name: "other", Authority: bound.Authority}, write(10)).Status)
}

// The replica is asked about a session once: further writes do not wait for a turn before their check.
func TestTheReplicaIsAskedOnceAboutASession(t *testing.T) {
	l := newLone(t)
	l.lengths = func([]block.ID) []uint32 { return []uint32{100} }
	l.open(bound, 10)
	write := func(seq uint64) []byte {
		b := meta.Block{ID: posix.MakeBlockID(0, 10, 1<<24), Length: 100}
		c := meta.Command{Op: meta.OpWrite, Cred: posix.Cred{UID: 7, GID: 7}, Ino: posix.Root, Blocks: []meta.Block{b}, Length: 100}
		return (&ask.Request{Kind: ask.Update, Session: 10, Seq: seq, Command: c.Append(nil)}).Append(nil)
	}
	require.Nil(t, l.checkStored(t.Context(), l.h, bound, write(1)))
	begun, release := make(chan struct{}), make(chan struct{})
	still := make(chan error, 1)
	go func() { still <- l.h.driver.Between(t.Context(), func() { close(begun); <-release }) }()
	<-begun // the replica takes no turn
	require.Nil(t, l.checkStored(t.Context(), l.h, bound, write(2)))
	close(release)
	require.NoError(t, <-still)
}

// A session whose opening is not ordered yet, as at a replica that is behind the one that has opened it: a
// barrier comes after the opening.
func TestAWriteWaitsForTheOpeningOfItsSession(t *testing.T) {
	l := newLone(t)
	for session := range uint64(20) {
		open := (&ask.Request{Kind: ask.OpenSession, Session: session + 1}).Append(nil)
		l.h.driver.Begin(nil, open, nobody{})
		v, err := l.h.admit(t.Context(), &ask.Request{Session: session + 1, Seq: 1}, nil)
		require.NoError(t, err)
		require.True(t, v.Execute)
	}
}

// nobody waits for an answer.
type nobody struct{}

func (nobody) Answer([]byte, error) {}
