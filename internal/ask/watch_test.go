package ask

import (
	"encoding/hex"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
)

func sampleChanges() Changes {
	return Changes{History: 1 << 32, From: 300, To: 305, Mark: 7, List: []Change{
		{Change: meta.Change{Kind: meta.ChangedName, Ino: 9, Name: "x"}, Place: 301, Own: true},
		{Change: meta.Change{Kind: meta.ChangedPlace, Ino: 9}, Place: 305},
	}}
}

// Clients and servers of other versions exchange these bytes.
func TestWatchBytes(t *testing.T) {
	w := Watching{History: 1, From: 300, Mark: 5, Linger: time.Second, Interest: Interest{1, 2}}
	require.Equal(t, "01ac0205e807020102", hex.EncodeToString(w.Append(nil)))
	w.Attrs = true
	require.Equal(t, "01ac0205e80702010201", hex.EncodeToString(w.Append(nil)))
	back, err := DecodeWatching(append(w.Append(nil), 9))
	require.NoError(t, err, "a newer client may say more")
	require.Equal(t, w, back)
	w.Attrs, w.Recalls = false, true
	require.Equal(t, "01ac0205e80702010202", hex.EncodeToString(w.Append(nil)))
	back, err = DecodeWatching(w.Append(nil))
	require.NoError(t, err)
	require.Equal(t, w, back)
	c := sampleChanges()
	require.Equal(t, "8080808010ac02b1020700020109030178030908"+"00", hex.EncodeToString(c.Append(nil)))
	read, err := DecodeChanges(c.Append(nil))
	require.NoError(t, err)
	require.Equal(t, c, read)
	c.Attrs = true
	require.Equal(t, "8080808010ac02b1020700020109030178030908"+"0001", hex.EncodeToString(c.Append(nil)))
	read, err = DecodeChanges(c.Append(nil))
	require.NoError(t, err)
	require.Equal(t, c, read)
	c.Recalled = []posix.Ino{5, 300}
	require.Equal(t, "8080808010ac02b1020700020109030178030908"+"00030205ac02", hex.EncodeToString(c.Append(nil)))
	read, err = DecodeChanges(append(c.Append(nil), 9))
	require.NoError(t, err, "a newer replica may say more")
	require.Equal(t, c, read)
	c.List[0].Kind = 77
	read, err = DecodeChanges(c.Append(nil))
	require.NoError(t, err)
	require.True(t, read.Lost, "what has changed is not known here")
}

func TestInterest(t *testing.T) {
	require.False(t, Interest(nil).Has(1))
	for _, n := range []int{0, 1, 100, 1 << 20} {
		s := NewInterest(n)
		require.LessOrEqual(t, len(s), MaxInterest)
		for i := range posix.Ino(min(n, 1000)) {
			s.Add(i * 65537)
			require.True(t, s.Has(i*65537))
		}
	}
	require.True(t, AllInterest().Has(12345))
	s, others := NewInterest(100), 0
	for i := range posix.Ino(100) {
		s.Add(i)
	}
	for i := range posix.Ino(10000) {
		if s.Has(i + 1000) {
			others++
		}
	}
	require.Less(t, others, 3000)
}

func FuzzDecodeWatching(f *testing.F) {
	w := Watching{History: 1, From: 300, Mark: 5, Linger: time.Second, Interest: Interest{1, 2}}
	f.Add(w.Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		if w, err := DecodeWatching(b); err == nil {
			again, err := DecodeWatching(w.Append(nil))
			require.NoError(t, err)
			require.Equal(t, w, again)
		}
	})
}

func FuzzDecodeChanges(f *testing.F) {
	c := sampleChanges()
	f.Add(c.Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		if c, err := DecodeChanges(b); err == nil {
			again, err := DecodeChanges(c.Append(nil))
			require.NoError(t, err)
			require.Equal(t, c, again)
		}
	})
}
