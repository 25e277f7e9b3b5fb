package meta_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
)

// reserve has partition p reserve numbers, and gives the first.
func (f *tree) reserve(p int, count uint64) posix.Ino {
	f.t.Helper()
	r := f.at(p, meta.Command{Op: meta.OpReserve, Length: count})
	require.Equal(f.t, posix.OK, r.Code)
	return posix.Ino(r.Number)
}

func TestReservedNumbersAreNobodyElses(t *testing.T) {
	f := newTree(t, 2)
	for _, count := range []uint64{0, meta.MaxReserve + 1, 1 << 63} {
		require.Equal(t, posix.EINVAL, f.at(1, meta.Command{Op: meta.OpReserve, Length: count}).Code)
	}
	next := f.make(1, root(1), "a", 0o600) + 1
	for _, count := range []uint64{1, 61, meta.MaxReserve, 64, 3} {
		first := f.reserve(1, count)
		require.Equal(t, next, first)
		next = first + posix.Ino(count)
	}
	require.Equal(t, next, f.make(1, root(1), "b", 0o600))
	f.restart(1)
	require.Equal(t, next+1, f.reserve(1, 1))
}

// stored counts the keys with a first byte.
func (f *tree) stored(p int, prefix byte) (count int) {
	for range f.keys[p].Scan([]byte{prefix}, []byte{prefix + 1}) {
		count++
	}
	return count
}

const reservedPrefix = 0x11

func TestReservedNumbersAreGivenBack(t *testing.T) {
	f := newTree(t, 2)
	dir := f.make(0, posix.Root, "dir", dirMode)
	f.spread(0, dir, 1)
	first := f.reserve(1, 200)
	f.machines[1].EndSession(7)
	require.Equal(t, 4, f.stored(1, reservedPrefix), "they do not end with a session")
	require.Equal(t, posix.OK, f.makeAlone(0, dir, "f", 0o600, first+70, "m").Code)
	give := meta.Command{Op: meta.OpReserve, Child: first + 60, Length: 140}
	f.must(1, give)
	f.must(1, give)
	require.Equal(t, 1, f.stored(1, reservedPrefix))
	f.machines[1].Make(f.decoded(f.uncoordinated(0, dir, "g", 0o600, first+61)), []byte("n"))
	require.Equal(t, posix.ESTALE, f.at(1, meta.Command{Op: meta.OpGetAttr, Ino: first + 61}).Code)
	f.must(1, meta.Command{Op: meta.OpReserve, Child: first, Length: 60})
	require.Zero(t, f.stored(1, reservedPrefix))
	require.Equal(t, posix.OK, f.at(1, meta.Command{Op: meta.OpReserve, Child: root(0) + 5, Length: 1}).Code, "another one's number: nothing")
}
