package route

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/posix"
)

// keep is learn of tickets whose first byte is the number of their inode.
func (t *tickets) keep(inodes ...posix.Ino) {
	for _, ino := range inodes {
		t.learn([]posix.Ticket{{byte(ino)}}, []posix.Ino{ino}, nil)
	}
}

// Used tickets stay, and of the others at least as many as a generation has.
func TestGenerationsOfTickets(t *testing.T) {
	k := newTickets(4)
	require.Nil(t, k.show([]posix.Ino{1}), "a client without tickets sends none")
	k.keep(1, 2, 3, 4, 5)
	require.Equal(t, []posix.Ticket{{1}, {5}, {}}, k.show([]posix.Ino{1, 5, 9}))
	k.keep(6, 7, 8)
	require.Equal(t, []posix.Ticket{{1}, {}}, k.show([]posix.Ino{1, 2}), "1 was used")
	k.learn([]posix.Ticket{{91}, {92}, {}}, []posix.Ino{10}, []posix.Ino{11, 1})
	require.Equal(t, []posix.Ticket{{91}, {92}, {1}}, k.show([]posix.Ino{10, 11, 1}))
	k.learn([]posix.Ticket{{93}, {94}}, []posix.Ino{12}, []posix.Ino{13, 14})
	require.Equal(t, []posix.Ticket{{}}, k.show([]posix.Ino{12}), "a list of another length is of no use")
}

func TestSavedTickets(t *testing.T) {
	k := newTickets(4)
	k.keep(1, 2, 3, 4, 5, 6)
	k.learn([]posix.Ticket{{102}}, []posix.Ino{2}, nil)
	all := newTickets(100)
	require.NoError(t, all.adopt(k.save(nil, 100)))
	require.Equal(t, []posix.Ticket{{1}, {102}, {3}, {4}, {5}, {6}}, all.show([]posix.Ino{1, 2, 3, 4, 5, 6}))
	some := newTickets(100)
	require.NoError(t, some.adopt(k.save([]posix.Ino{1, 3, 99}, 0)))
	require.Equal(t, []posix.Ticket{{1}, {}, {3}}, some.show([]posix.Ino{1, 2, 3}), "those of held inodes come first")
	require.NoError(t, some.adopt(""))
	require.Error(t, some.adopt("AAAA"))
	require.Error(t, some.adopt("no base64"))
}

func BenchmarkShowTickets(b *testing.B) {
	k := newTickets(maxYoung)
	for ino := range posix.Ino(100_000) {
		k.keep(ino + 2)
	}
	named := []posix.Ino{5}
	b.ReportAllocs()
	for b.Loop() {
		k.show(named)
	}
}
