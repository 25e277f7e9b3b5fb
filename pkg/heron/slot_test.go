package heron

import (
	"testing"

	"github.com/stretchr/testify/require"
)

var testConfig = Config{Objects: 8, ObjectSize: 16}

// slotOf makes a slot with two versions of object 7.
func slotOf(a, b version) []byte {
	s := make([]byte, testConfig.slotSize())
	le.PutUint64(s, 7)
	for i, v := range []version{a, b} {
		if v.tag > 0 {
			copy(s[slotHeader+i*testConfig.versionSize():], v.encode(7))
		}
	}
	return s
}

// TestBefore covers line 22 of Algorithm 2, and argument V3. Each case holds with the versions in both
// places.
func TestBefore(t *testing.T) {
	v := func(tag, prev uint64) version { return version{tag: tag, prev: prev, value: []byte{byte(tag)}} }
	for name, x := range map[string]struct {
		a, b  version
		bound uint64
		tag   uint64
		sight sight
	}{
		"never written":                        {version{}, version{}, 10, 0, found},
		"the newest":                           {v(5, 3), v(8, 5), 10, 8, found},
		"written once":                         {v(8, 0), version{}, 10, 8, found},
		"the request itself has written":       {v(10, 8), v(8, 5), 10, 8, found},
		"the first write is the request's":     {v(10, 0), version{}, 10, 0, found},
		"written twice":                        {v(12, 10), v(10, 8), 10, 0, past},
		"an old one beside the next but one":   {v(5, 3), v(12, 10), 10, 0, past},
		"taken over, the old one has no place": {v(5, 0), v(20, 15), 18, 0, past},
	} {
		for _, slot := range [][]byte{slotOf(x.a, x.b), slotOf(x.b, x.a)} {
			got, sight := testConfig.before(7, slot, x.bound)
			require.Equal(t, x.sight, sight, name)
			require.Equal(t, x.tag, got.tag, name)
		}
	}
}

// TestBeingWritten: each byte of a version that is wrong makes the look unclear, never another value.
func TestBeingWritten(t *testing.T) {
	good := slotOf(version{tag: 8, prev: 5, value: []byte("right")}, version{tag: 5, prev: 2, value: []byte("old")})
	end := slotHeader + versionHeader + len("right")
	for i := slotHeader; i < end; i++ {
		for bit := range 8 {
			s := append([]byte{}, good...)
			s[i] ^= 1 << bit
			_, sight := testConfig.before(7, s, 10)
			require.Equal(t, unclear, sight, "byte %d", i)
		}
	}
	_, sight := testConfig.before(6, good, 10)
	require.Equal(t, unclear, sight, "of another object")
}

func TestNoteCodec(t *testing.T) {
	n := note{
		meeting: meeting{count: 3, place: 9, executed: true}, ask: 4, answered: 5, attempt: 6, need: 7, taken: 8,
		wanted: [maxAsk]ObjectID{1, maxAsk - 1: 2}, slots: [maxAsk]uint32{3, maxAsk - 1: 4},
	}
	b := n.encode()
	require.Len(t, b, noteSize)
	got, ok := decodeNote(b)
	require.True(t, ok)
	require.Equal(t, n, got)
	_, ok = decodeNote(make([]byte, noteSize))
	require.False(t, ok, "memory that nobody has written")
	for i := range b {
		b[i] ^= 1
		_, ok := decodeNote(b)
		require.False(t, ok, "byte %d", i)
		b[i] ^= 1
	}
}
