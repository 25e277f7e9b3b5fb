package onesided

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/pkg/multicast"
)

// log is a sequence of deliveries of TRAM.
type log struct {
	all []multicast.Delivery
}

// add appends payloads of a sender.
func (l *log) add(from multicast.ProcessID, payloads ...[]byte) {
	for _, b := range payloads {
		id := multicast.MessageID{Sender: from, Seq: uint64(len(l.all))}
		l.all = append(l.all, multicast.Delivery{Message: multicast.Message{ID: id, Payload: b}, Final: multicast.Timestamp(len(l.all) + 1)})
	}
}

// run gives the log from a place on to p, and the messages that are complete.
func (l *log) run(p *pieces, from int) (all []multicast.Message) {
	for i := range l.all[from:] {
		if m, ok := p.take(&l.all[from+i]); ok {
			p.delivered(m.ID)
			all = append(all, m)
		}
	}
	return all
}

func long(from multicast.ProcessID, seq uint64, size int) *multicast.Message {
	return &multicast.Message{
		ID: multicast.MessageID{Sender: from, Seq: seq}, Payload: bytes.Repeat([]byte{byte(seq)}, size), Durable: seq%2 == 0,
	}
}

func TestPieces(t *testing.T) {
	p := newPieces(0, 100)
	l := &log{}
	one, two := p.split(long(1, 4, 100), 64), p.split(long(2, 5, 90), 64)
	require.Len(t, one, 3)
	require.Len(t, p.split(long(1, 6, 40), 64), 1)
	require.Len(t, p.split(long(1, 6, 0), 64), 1, "an empty message is a message")
	for _, b := range one {
		require.LessOrEqual(t, len(b), 64)
	}
	l.add(1, one[0])
	l.add(2, two[0], two[1])
	l.add(1, one[1])
	l.add(2, two[2])
	l.add(1, one[2], []byte{kindProbe}, nil, []byte{kindPiece, 1})
	got := l.run(&p, 0)
	require.Equal(t, []multicast.Message{*long(2, 5, 90), *long(1, 4, 100)}, got, "each at the place of its last piece")
	require.Empty(t, p.parts)
	require.Empty(t, p.takeVoid())
}

// TestCover: the log keeps all pieces of a message that ends behind the durable place (P2).
func TestCover(t *testing.T) {
	p := newPieces(0, 100)
	l := &log{}
	l.add(2, p.split(long(2, 1, 10), 64)...)
	l.add(1, p.split(long(1, 2, 100), 64)...) // 2 to 4
	l.add(2, p.split(long(2, 3, 10), 64)...)
	three := p.split(long(1, 4, 100), 64) // from 6 on
	l.add(1, three[:2]...)
	l.run(&p, 0)
	for durable, needed := range map[uint64]uint64{1: 1, 2: 1, 3: 1, 4: 4, 5: 5, 6: 5, 7: 5} {
		again := newPieces(0, 100)
		l.run(&again, 0)
		require.Equal(t, needed, again.cover(durable), "of %d", durable)
	}
	require.EqualValues(t, 5, p.cover(7))

	l.add(1, three[2])
	for from := range 6 { // a process that has restarted finds the same from any place that it may begin at
		again := newPieces(uint64(from), 100)
		all := l.run(&again, from)
		require.Equal(t, *long(1, 4, 100), all[len(all)-1], "from %d", from)
	}
}

// TestVoid: a message that stays incomplete is dropped by all at the same place, and its sender multicasts it
// again (P1).
func TestVoid(t *testing.T) {
	sender, other := newPieces(0, 10), newPieces(0, 10)
	m := long(1, 2, 100)
	pieces := sender.split(m, 64)
	l := &log{}
	l.add(1, pieces[:2]...)
	for range 11 {
		l.add(2, []byte{kindProbe})
	}
	l.add(1, pieces[2]) // too late
	require.Empty(t, l.run(&sender, 0))
	require.Empty(t, l.run(&other, 0))
	require.EqualValues(t, 14, other.cover(0), "it does not hold the log")
	require.Equal(t, []multicast.Message{*m}, sender.takeVoid())
	require.Empty(t, sender.takeVoid())
	require.Empty(t, other.takeVoid())
	l.add(1, pieces...)
	want := []multicast.Message{*m}
	require.Equal(t, want, l.run(&sender, 14))
	require.Equal(t, want, l.run(&other, 14))
}

// TestNewLife: the rest of a message of an earlier life never comes.
func TestNewLife(t *testing.T) {
	p := newPieces(0, 100)
	l := &log{}
	pieces := newPieces(0, 100)
	old := pieces.split(long(1, 2, 100), 64)
	l.add(1, old[:2]...)
	l.add(1, []byte{kindProbe})
	l.add(1, old[2])
	require.Empty(t, l.run(&p, 0))
	require.EqualValues(t, 4, p.cover(0))
}

// TestHostilePieces: a member that is broken makes others keep no more than a message, and complete nothing.
func TestHostilePieces(t *testing.T) {
	p, maker := newPieces(0, 1<<20), newPieces(0, 1<<20)
	l := &log{}
	huge := maker.split(long(1, 2, multicast.MaxPayload+1<<20), 1<<20)
	l.add(1, huge...)
	require.Empty(t, l.run(&p, 0))
	require.Empty(t, p.parts)
	pieces := maker.split(long(1, 4, 100), 64)
	l.add(1, pieces[0], pieces[2], pieces[1])
	require.Empty(t, l.run(&p, len(huge)))
}
