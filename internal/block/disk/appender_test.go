package disk

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/block"
	"github.com/globalfs/globalfs/internal/block/blocktest"
	"github.com/globalfs/globalfs/internal/block/segfile"
)

// manyRecords are more records than one call to the kernel takes.
func manyRecords(n, size int) (records []*pending) {
	for i := range n {
		id, data := block.ID{1: byte(i >> 8), 2: byte(i)}, make([]byte, size+i%7)
		records = append(records, &pending{Record: segfile.Record{ID: id, Length: uint32(len(data)), Sum: block.Sum(id, data)}, data: data})
	}
	return records
}

// requireRecords fails unless the segment holds records and nothing else.
func requireRecords(t *testing.T, dir string, records []*pending) {
	file, err := os.Open(filepath.Join(dir, segfile.Name(0)))
	require.NoError(t, err)
	size, err := segfile.Size(dir, 0)
	require.NoError(t, err)
	in := scanner{file: file, size: size}
	for _, want := range records {
		r, at, ok, err := in.next()
		require.NoError(t, err)
		require.True(t, ok)
		require.Equal(t, want.Record, r)
		require.Equal(t, want.at, segfile.Place{Offset: at})
		_, good, err := in.content(&r, at)
		require.NoError(t, err)
		require.True(t, good)
	}
	require.Equal(t, size, in.at)
	require.NoError(t, file.Close())
}

func TestAppendMany(t *testing.T) {
	a := appender{dir: t.TempDir(), roll: 1 << 30}
	first, second := manyRecords(3000, 100), manyRecords(40, 100_000)
	a.write(first)
	a.write(second)
	a.write(nil)
	all := append(first, second...)
	for _, r := range all {
		require.NoError(t, r.err)
	}
	requireRecords(t, a.dir, all)
	require.NoError(t, a.close())
}

// A batch that is cut short keeps the records that are whole (S4).
func TestAppendCutShort(t *testing.T) {
	blocktest.WithFileLimit(t, func(limit func(bytes uint64)) {
		for _, most := range []uint64{1, 31, 32, 200_000, 200_009, 300_000} {
			limit(most)
			a := appender{dir: t.TempDir(), roll: 1 << 30}
			records := manyRecords(3000, 100)
			a.write(records)
			n, size := 0, uint64(0)
			for ; size+uint64(segfile.HeaderSize+len(records[n].data)) <= most; n++ {
				size += uint64(segfile.HeaderSize + len(records[n].data))
				require.NoError(t, records[n].err)
			}
			for _, r := range records[n:] {
				require.ErrorIs(t, r.err, block.ErrNoSpace)
			}
			require.False(t, a.broken)
			require.Equal(t, segfile.Place{Offset: size}, a.end)
			requireRecords(t, a.dir, records[:n])
			limit(0)
			more := manyRecords(5, 500)
			a.write(more)
			requireRecords(t, a.dir, append(records[:n:n], more...))
			require.NoError(t, a.close())
		}
	})
}
