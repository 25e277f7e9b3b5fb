package server

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/posix"
)

// Servers whose keys are of the same or of neighbouring generations accept each other's tickets. A ticket is
// not valid for another client, another inode or another cluster.
func TestTickets(t *testing.T) {
	of := func(cluster string, keys ...string) *tickets {
		return newTickets(&sealer{keys: keysOf(keys...), cluster: []byte(cluster)})
	}
	ino := posix.MakeIno(1, 2)
	valid := func(ticket posix.Ticket, client string, ino posix.Ino, by *tickets) bool {
		valid, _ := by.Of(client).Holds(ino, ticket)
		return valid
	}
	ticket := of("c", "2", "1").Of("a").Ticket(ino)
	require.True(t, valid(ticket, "a", ino, of("c", "2", "1")))
	require.True(t, valid(ticket, "a", ino, of("c", "1", "0")), "a server that has not got the newest key")
	require.True(t, valid(ticket, "a", ino, of("c", "3", "2")), "after a rotation")
	require.False(t, valid(ticket, "a", ino, of("c", "4", "3")), "after two")
	require.True(t, valid(of("c", "1", "0").Of("a").Ticket(ino), "a", ino, of("c", "2", "1")))
	require.True(t, valid(of("c", "0").Of("a").Ticket(ino), "a", ino, of("c", "1", "0")), "the first rotation")
	require.True(t, valid(of("c", "1", "0").Of("a").Ticket(ino), "a", ino, of("c", "0")))
	require.False(t, valid(ticket, "b", ino, of("c", "2", "1")))
	require.False(t, valid(ticket, "a", posix.MakeIno(1, 3), of("c", "2", "1")))
	require.False(t, valid(ticket, "a", posix.MakeIno(2, 2), of("c", "2", "1")))
	require.False(t, valid(ticket, "a", ino, of("d", "2", "1")))
	require.False(t, valid(posix.Ticket{}, "a", ino, of("c", "0")))

	_, newest := of("c", "2", "1").Of("a").Holds(ino, ticket)
	require.True(t, newest)
	_, newest = of("c", "3", "2").Of("a").Holds(ino, ticket)
	require.False(t, newest)
	_, newest = of("c", "1", "0").Of("a").Holds(ino, ticket)
	require.False(t, newest)
	require.Nil(t, newTickets(&sealer{}).Of("a"), "a cluster without keys cannot tell")

	g := newGrants(&sealer{keys: keysOf("2", "1"), cluster: []byte("c")})
	right := g.Grant("a", posix.BlockID{1: 1, 7: 2})
	require.NotEqual(t, right[:8], ticket[:8], "a right to a block is no ticket")
}

func BenchmarkTicket(b *testing.B) {
	t := newTickets(&sealer{keys: keysOf("two", "one")})
	client := t.Of("client")
	b.ReportAllocs()
	for b.Loop() {
		client.Ticket(7)
	}
}

func BenchmarkHoldsTicket(b *testing.B) {
	t := newTickets(&sealer{keys: keysOf("two", "one")})
	ticket := t.Of("client").Ticket(7)
	b.ReportAllocs()
	for b.Loop() {
		t.Of("client").Holds(7, ticket)
	}
}
