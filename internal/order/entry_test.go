package order

import (
	"encoding/hex"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/varint"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// The bytes are those of write-ahead logs: they must not change.
func TestEntriesStayAsTheyWere(t *testing.T) {
	e := Entry{Time: 1 << 40, Kind: 32, Body: []byte("b")}
	require.Equal(t, "02"+"808080808040"+"20"+"62", hex.EncodeToString(e.encode()))
	require.Equal(t, "02"+"01"+"01", hex.EncodeToString((&Entry{Time: -1, Kind: 1}).encode()))
	p := newPair(t)
	p.own.out.Frames = []multicast.Frame{frame(2, "o")}
	p.between.out.Frames = []multicast.Frame{frame(2, "b")}
	p.own.out.Records, p.between.out.Records = [][]byte{[]byte("r")}, [][]byte{[]byte("s")}
	out := p.step(func() { p.Send(2, []byte("m")) })
	require.Equal(t, "04016d"+"01016f"+"020162", hex.EncodeToString(out.Frames[0].Data))
	require.Equal(t, [][]byte{[]byte("\x01r"), []byte("\x02s")}, out.Records)
	require.Equal(t, "03016162", hex.EncodeToString(checkpoint([]byte("a"), []byte("b"))))
}

func TestEntryRoundTrip(t *testing.T) {
	for _, e := range []Entry{{}, {Time: -5, Kind: 127}, {Time: 1<<63 - 1, Kind: 1, Body: []byte{0}}, {Time: 7, Kind: 2, Backup: 1 << 40, Body: []byte{1}}} {
		got, err := DecodeEntry(e.encode())
		require.NoError(t, err)
		require.Equal(t, e, got)
	}
}

// An entry of another version stops the replica: it is never skipped.
func TestEntriesOfAnotherVersion(t *testing.T) {
	good := (&Entry{Time: 1, Kind: 2, Body: []byte("b")}).encode()
	other := append([]byte{versionBackup + 1}, good[1:]...)
	for _, b := range [][]byte{nil, {}, {version}, {version, 2}, other, {0, 0, 0}, {255, 255, 255, 255, 255, 255, 255, 255, 255, 255}} {
		_, err := DecodeEntry(b)
		require.ErrorIs(t, err, ErrVersion, "%x", b)
	}
}

func FuzzDecodeEntry(f *testing.F) {
	f.Add((&Entry{Time: 1 << 40, Kind: 32, Body: []byte("b")}).encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		e, err := DecodeEntry(b)
		if err != nil {
			require.ErrorIs(t, err, ErrVersion)
			return
		}
		again, err := DecodeEntry(e.encode())
		require.NoError(t, err)
		require.Equal(t, e, again)
	})
}

// A frame is split as it was put together, and bytes of any kind are either taken whole or counted.
func FuzzFrame(f *testing.F) {
	f.Add([]byte("\x04\x01m\x01\x01o\x02\x01b"))
	f.Add([]byte("\x03\x01m\x01"))
	f.Fuzz(func(t *testing.T, b []byte) {
		p := newPair(t)
		p.step(nil, multicast.Frame{Peer: 2, Data: b})
		if len(b) == 0 {
			require.Len(t, p.own.in.Frames, 1)
			return
		}
		n := len(p.own.in.Frames) + len(p.between.in.Frames) + len(p.received)
		sections, ok := 0, true
		for r := varint.NewReader(b); r.Len() > 0 && ok; sections++ {
			kind := section(r.Uint8())
			ok = len(r.Bytes()) > 0 && r.Err() == nil && kind != sectionBoth && kind >= sectionOwn && kind <= sectionMessage
		}
		if ok {
			require.Equal(t, sections, n)
			require.Zero(t, p.malformed)
		} else {
			require.EqualValues(t, 1, p.malformed)
		}
	})
}

func FuzzReplay(f *testing.F) {
	f.Add([]byte("\x01own"))
	f.Add(checkpoint([]byte("a"), []byte("b")))
	f.Fuzz(func(t *testing.T, record []byte) {
		own, between := &fakeCore{}, &fakeCore{}
		if err := Replay(own, between, record); err != nil {
			require.ErrorIs(t, err, ErrVersion)
			require.Empty(t, append(own.replayed, between.replayed...))
		} else {
			require.NotEmpty(t, append(own.replayed, between.replayed...))
		}
	})
}

func FuzzAdopt(f *testing.F) {
	f.Add(newPair(nil).State())
	f.Fuzz(func(t *testing.T, states []byte) {
		p := newPair(t)
		if record, err := p.Adopt(states); err == nil {
			replayed(t, [][]byte{record})
		}
	})
}

// A kind is written as a byte, and read as a varint.
func TestEveryKindRoundTrips(t *testing.T) {
	for _, kind := range []Kind{127, 128, 255} {
		e := Entry{Time: 1, Kind: kind, Body: []byte("b")}
		got, err := DecodeEntry(e.encode())
		require.NoError(t, err, "kind %d", kind)
		require.Equal(t, e, got)
	}
}
