package meta_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/kv"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
)

// pages reads all that there is in pages, and how many.
func (f *fs) pages(size uint64) (pairs []meta.Pair, count int) {
	f.t.Helper()
	var last []byte
	for {
		r := f.do(meta.Command{Op: meta.OpScan, Data: last, Length: size})
		page, err := meta.DecodeScan(r.Data)
		require.NoError(f.t, err)
		require.EqualValues(f.t, len(page), r.Number)
		if len(page) == 0 {
			return pairs, count
		}
		pairs, last = append(pairs, page...), page[len(page)-1].Key
		count++
	}
}

// Pages of any size together are the state.
func TestScan(t *testing.T) {
	f := newFS(t)
	for i := range 20 {
		dir := f.mkdir(posix.Root, fmt.Sprint(i))
		f.must(meta.Command{Op: meta.OpMknod, Ino: dir, Name: "file", Mode: 0o644})
	}
	f.keys.Set([]byte{0x3f}, nil)
	f.keys.Set([]byte{0x40}, []byte("not meta's"))
	t.Cleanup(func() { f.keys.Delete([]byte{0x3f}) })
	for _, size := range []uint64{0, 100, meta.MaxScan, 1 << 40} {
		copied := kv.NewMemory()
		pairs, pages := f.pages(size)
		for _, p := range pairs {
			copied.Set(p.Key, p.Value)
		}
		require.Equal(t, []byte{0x3f}, pairs[len(pairs)-1].Key)
		require.Empty(t, meta.Check(copied))
		switch size {
		case 0:
			require.Equal(t, len(pairs), pages, "one pair always fits")
		case 100:
			require.Greater(t, pages, 10)
		default:
			require.Equal(t, 1, pages)
		}
	}
}

func TestScanIsBounded(t *testing.T) {
	f := newFS(t)
	for i := range 20 {
		f.must(meta.Command{Op: meta.OpSetXattr, Ino: posix.Root, Name: fmt.Sprint(i), Data: make([]byte, posix.MaxXattr)})
	}
	r := f.do(meta.Command{Op: meta.OpScan, Length: 1 << 40})
	require.Less(t, len(r.Data), meta.MaxScan+100)
	require.Greater(t, len(r.Data), meta.MaxScan/2)
	_, pages := f.pages(1 << 40)
	require.Equal(t, 2, pages)
}

func TestScanDoesNotDecode(t *testing.T) {
	for _, b := range [][]byte{{1}, {1, 'k'}, {1, 'k', 2, 'v'}, {0xff}} {
		_, err := meta.DecodeScan(b)
		require.Error(t, err, "%x", b)
	}
	page, err := meta.DecodeScan(nil)
	require.NoError(t, err)
	require.Empty(t, page)
}
