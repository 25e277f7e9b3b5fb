package replica

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/order"
	"github.com/globalfs/globalfs/internal/posix"
)

// stamps are tickets that a test can read.
type stamps struct{}

func (stamps) Of(client string) ClientTickets { return stamp(client[0]) }

// stamp is the first letter of a client.
type stamp byte

func (s stamp) Ticket(ino posix.Ino) posix.Ticket { return posix.Ticket{byte(s), byte(ino)} }

func (s stamp) Holds(ino posix.Ino, shown posix.Ticket) (valid, newest bool) {
	return s.Ticket(ino) == shown, true
}

// ticketed returns a fixture that verifies tickets, with a session of a client, and the file of the client.
func ticketed(t *testing.T) (f *fixture, owner *ask.Client, file posix.Ino) {
	f, owner = newFixture(t), someClient("owner", 1000)
	f.tickets.keys = stamps{}
	f.open(8)
	all := meta.Command{Op: meta.OpSetAttr, Ino: 1, Set: meta.SetMode, Attr: posix.Attr{Mode: 0o777}}
	require.Equal(t, posix.OK, result(t, f.one(ask.Request{Kind: ask.Update, Session: 8, Seq: 1, Command: all.Append(nil)})).Code)
	require.Equal(t, ask.Answered, f.as(owner, ask.Request{Kind: ask.OpenSession, Session: 7}).Status)
	c := mknod("f")
	c.Cred = posix.Cred{UID: 1000, GID: 1000}
	p := f.as(owner, ask.Request{Kind: ask.Update, Session: 7, Seq: 1, Ticketed: true, Command: c.Append(nil)})
	file = result(t, p).Attr.Ino
	require.Equal(t, []posix.Ticket{stamp('o').Ticket(file)}, p.Tickets)
	return f, owner, file
}

// The log has no tickets, so that versions before tickets can read it. Nothing of a call stays after its
// answer.
func TestTicketsAreNotOrdered(t *testing.T) {
	f, owner, file := ticketed(t)
	set := meta.Command{Op: meta.OpSetAttr, Cred: posix.Cred{UID: 1000}, Ino: file, Set: meta.SetMode, Attr: posix.Attr{Mode: 0o640}}
	write := ask.Request{Kind: ask.Update, Session: 7, Seq: 2, Ticketed: true, Tickets: []posix.Ticket{stamp('o').Ticket(file)}, Command: set.Append(nil)}
	renewal := ask.Request{Kind: ask.RenewSession, Session: 7, Held: []posix.Ino{file}, Ticketed: true, Tickets: write.Tickets}
	for _, sent := range []ask.Request{write, renewal} {
		f.hold, f.from = true, owner
		f.step(sent)
		require.Len(t, f.kept, 1)
		e, err := order.DecodeEntry(f.kept[0].Payload)
		require.NoError(t, err)
		q, _, err := decodeRequest(e.Body)
		require.NoError(t, err)
		require.Equal(t, sent.Command, q.Command)
		require.False(t, q.Ticketed)
		require.Empty(t, q.Tickets)
		f.hold, f.from = false, nil
		require.Len(t, f.step(), 1)
	}
	require.Empty(t, f.tickets.calls)
	require.Equal(t, []posix.Ino{file}, f.sessions.HeldBy(7, owner))
	require.Empty(t, f.sessions.HeldBy(7, someClient("other", 1000)))
}

// A session may go on to hold an inode without a ticket: the answer brings one. Other numbers it does
// not hold.
func TestHeldWithoutTickets(t *testing.T) {
	f, owner, file := ticketed(t)
	renew := func(tickets ...posix.Ticket) ask.Reply {
		return f.as(owner, ask.Request{Kind: ask.RenewSession, Session: 7, Held: []posix.Ino{99, file}, Ticketed: true, Tickets: tickets})
	}
	require.Empty(t, renew(posix.Ticket{1}, stamp('o').Ticket(file)).Tickets, "it has the newest ones")
	require.Equal(t, []posix.Ino{file}, f.sessions.HeldBy(7, owner))
	f.tickets.keys = strict{}
	require.Equal(t, []posix.Ticket{{}, stamp('o').Ticket(file)}, renew().Tickets)
	require.Equal(t, []posix.Ino{file}, f.sessions.HeldBy(7, owner))
	require.Equal(t, ask.Answered, f.as(owner, ask.Request{Kind: ask.RenewSession, Session: 7}).Status)
	require.Equal(t, []posix.Ticket{{}, {}}, renew().Tickets)
	require.Empty(t, f.sessions.HeldBy(7, owner))
}

// strict accepts no ticket, as after two changes of the keys.
type strict struct{}

func (strict) Of(client string) ClientTickets { return strictly{stamp(client[0])} }

type strictly struct{ stamp }

func (strictly) Holds(posix.Ino, posix.Ticket) (valid, newest bool) { return false, false }

// If tickets are optional, old clients need none, and others get those that they lack.
func TestTicketsAreOptional(t *testing.T) {
	f, _, file := ticketed(t)
	other := someClient("z", 1000)
	q := ask.Request{Kind: ask.Query, Command: (&meta.Command{Op: meta.OpGetAttr, Ino: file}).Append(nil)}
	require.Equal(t, ask.Refused, f.as(other, q).Status)
	f.tickets.keys, f.tickets.optional = strict{}, true
	p := f.as(other, q)
	require.Equal(t, posix.OK, result(t, p).Code)
	require.Empty(t, p.Tickets, "it does not know tickets")
	q.Ticketed = true
	p = f.as(other, q)
	require.Equal(t, posix.OK, result(t, p).Code)
	require.Equal(t, []posix.Ticket{stamp('z').Ticket(file)}, p.Tickets)
}

// Answers with an error, and answers to clients that are not bound, have no tickets.
func TestAnswersWithoutTickets(t *testing.T) {
	f, owner, _ := ticketed(t)
	q := lookup(posix.Root, "none")
	q.Ticketed = true
	require.Empty(t, f.as(owner, q).Tickets)
	q = lookup(posix.Root, "f")
	q.Ticketed = true
	require.Len(t, f.as(owner, q).Tickets, 1)
	require.Empty(t, f.one(q).Tickets)
	require.Empty(t, f.as(&ask.Client{Name: "o", Authority: posix.Everybody()}, q).Tickets)
	moved := meta.Result{Code: posix.EREMOTE, Attr: posix.Attr{Ino: 99}}
	require.Empty(t, meta.NewInodes(meta.OpUnlink, nil, &moved))
}
