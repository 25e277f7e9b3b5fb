package meta_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/kv"
	"github.com/globalfs/globalfs/internal/meta"
)

// snapshotOf returns a snapshot of a few keys.
func snapshotOf(t testing.TB, keys ...string) []byte {
	s := kv.NewMemory()
	for _, k := range keys {
		s.Set([]byte(k), []byte("value of "+k))
	}
	var b bytes.Buffer
	require.NoError(t, meta.Snapshot(s, &b))
	return b.Bytes()
}

// restore replaces a store by a snapshot, as a replica does that takes over the state of another one.
func restore(s *kv.Store, snapshot []byte) error {
	return s.Replace(func(set func(key, value []byte) error) error {
		return meta.ReadSnapshot(bytes.NewReader(snapshot), set)
	})
}

func TestASnapshotReplacesAllKeys(t *testing.T) {
	s := kv.NewMemory()
	s.Set([]byte("old"), []byte("v"))
	require.NoError(t, restore(s, snapshotOf(t, "a", "\x41replica")))
	require.Nil(t, s.Get([]byte("old")))
	var b bytes.Buffer
	require.NoError(t, meta.Snapshot(s, &b))
	require.Equal(t, snapshotOf(t, "a", "\x41replica"), b.Bytes())
}

// ReadSnapshot finds any change or cut of a snapshot, and then the store keeps its entries.
func TestADamagedSnapshotChangesNothing(t *testing.T) {
	good := snapshotOf(t, "a", "b", "c")
	var bad [][]byte
	for i := range good {
		flipped := bytes.Clone(good)
		flipped[i] ^= 1 << (i % 8)
		bad = append(bad, good[:i], flipped)
	}
	for _, b := range bad {
		s := kv.NewMemory()
		s.Set([]byte("old"), []byte("v"))
		require.ErrorIs(t, restore(s, b), meta.ErrBadSnapshot)
		require.Equal(t, "v", string(s.Get([]byte("old"))))
		require.Nil(t, s.Get([]byte("a")))
	}
}

// full fails after some bytes, as a disk does.
type full struct{ left int }

func (f *full) Write(b []byte) (int, error) {
	if f.left -= len(b); f.left < 0 {
		return 0, bytes.ErrTooLarge
	}
	return len(b), nil
}

func TestSnapshotReportsErrors(t *testing.T) {
	s := kv.NewMemory()
	for i := range 100 {
		s.Set([]byte{byte(i)}, make([]byte, 1000))
	}
	for _, room := range []int{0, 50_000, 100_430} {
		require.ErrorIs(t, meta.Snapshot(s, &full{left: room}), bytes.ErrTooLarge)
	}
}

func FuzzReadSnapshot(f *testing.F) {
	f.Add(snapshotOf(f, "a", "b"))
	f.Fuzz(func(t *testing.T, b []byte) {
		s := kv.NewMemory()
		if restore(s, b) == nil {
			var again bytes.Buffer
			require.NoError(t, meta.Snapshot(s, &again))
			require.True(t, bytes.HasPrefix(b, again.Bytes()))
		}
	})
}
