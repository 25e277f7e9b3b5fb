package tram

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/pkg/multicast"
)

func anEntry() *entry {
	return &entry{
		from: 3, index: 9, children: []childPosition{{4, 7}, {9, 1}},
		message: multicast.Message{ID: multicast.MessageID{Sender: 3, Seq: 5}, Dest: []multicast.GroupID{1, 4}, Payload: []byte("payload")},
	}
}

func TestEntryIsRead(t *testing.T) {
	want := anEntry()
	want.encode(77)
	got, ts, ok := decodeEntry(append(stamped(want.slot, 0x1234), make([]byte, 40)...), 77)
	require.True(t, ok)
	require.Equal(t, uint32(0x1234), ts)
	require.Equal(t, want, got)
	_, _, ok = decodeEntry(want.slot, 78)
	require.False(t, ok, "it is the entry of another slot")
}

// Two slots with the same entry have the same bytes except for the timestamps (G6).
func TestSameValueSameBytes(t *testing.T) {
	a, b := anEntry(), anEntry()
	a.encode(5)
	b.encode(5)
	require.Equal(t, stamped(a.slot, 1)[wordSize:], stamped(b.slot, 2)[wordSize:])
	require.Equal(t, stamped(a.slot, 1)[:4], stamped(b.slot, 2)[:4])
}

// A part of a new slot over an old slot is never taken for an entry.
func TestPartsAreNotValid(t *testing.T) {
	old, young := anEntry(), anEntry()
	old.message.Payload, young.index = []byte("another"), 10
	old.encode(4)
	young.encode(8)
	require.Len(t, young.slot, len(old.slot))
	rng := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		mixed := append([]byte{}, old.slot...)
		for at := 0; at < len(mixed); at += 8 {
			if rng.IntN(2) == 0 {
				copy(mixed[at:min(at+8, len(mixed))], young.slot[at:])
			}
		}
		for n, whole := range map[uint64][]byte{4: old.slot, 8: young.slot} {
			_, _, ok := unseal(mixed, n)
			require.Equal(t, string(whole) == string(mixed), ok)
		}
	}
}

// TestHostileSlots: decoding a damaged slot returns a valid message or false, and never panics.
func TestHostileSlots(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	e := anEntry()
	e.encode(1)
	content := e.slot[wordSize+bodyHeader:]
	for range 20_000 {
		broken := append([]byte{}, content[:rng.IntN(len(content)+1)]...)
		for range rng.IntN(4) {
			if len(broken) > 0 {
				broken[rng.IntN(len(broken))] = byte(rng.IntN(256))
			}
		}
		slot := seal(1, broken) // with a checksum that fits
		if got, _, ok := decodeEntry(slot, 1); ok {
			requireValid(t, got.message)
		}
		if m, ok := decodeMessage(broken); ok {
			requireValid(t, m)
		}
	}
	long := seal(1, content)
	le.PutUint32(long[8:], 1<<31)
	_, _, ok := unseal(long, 1)
	require.False(t, ok)
	_, _, ok = unseal(nil, 1)
	require.False(t, ok)
}

func TestNote(t *testing.T) {
	for _, losses := range [][maxMembers]uint32{{}, {1, 0, 3}} {
		testNote(t, note{1, true, false, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, losses})
	}
}

func testNote(t *testing.T, want note) {
	b := make([]byte, noteSize)
	copy(b, want.encode())
	got, ok := decodeNote(b)
	require.True(t, ok)
	require.Equal(t, want, got)
	_, ok = decodeNote(make([]byte, noteSize))
	require.False(t, ok, "none was written")
	b[20] ^= 1
	_, ok = decodeNote(b)
	require.False(t, ok)
}

func requireValid(t *testing.T, m multicast.Message) {
	if m.Order == Barrier {
		m.Order = multicast.Acyclic
	}
	require.NoError(t, m.Validate())
}
