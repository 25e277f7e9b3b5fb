package disk

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/block"
	"github.com/globalfs/globalfs/internal/block/segfile"
	"github.com/globalfs/globalfs/internal/posix"
)

func TestEntryRoundTrip(t *testing.T) {
	for _, e := range []entry{
		{crc: 7, inline: []byte("x")},
		{crc: 7, length: block.MaxSize, at: segfile.Place{Segment: 1<<32 - 1, Offset: 1 << 40}},
	} {
		got, err := decodeEntry(e.append(nil))
		require.NoError(t, err)
		require.Equal(t, e, got)
	}
	p, version, err := decodeFrontier(appendFrontier(nil, segfile.Place{Segment: 9, Offset: 1 << 33}))
	require.NoError(t, err)
	require.EqualValues(t, frontierVersion, version)
	require.Equal(t, segfile.Place{Segment: 9, Offset: 1 << 33}, p)
	for name, b := range map[string][]byte{
		"empty":        {},
		"kind":         {3, 0, 0, 0, 0, 1},
		"no bytes":     {kindInline, 0, 0, 0, 0},
		"length 0":     {kindSegment, 0, 0, 0, 0, 1, 1, 0},
		"left over":    {kindSegment, 0, 0, 0, 0, 1, 1, 1, 1},
		"cut checksum": {kindInline, 0, 0},
	} {
		_, err := decodeEntry(b)
		require.Error(t, err, name)
	}
	_, version, err = decodeFrontier([]byte{1, 0, 0})
	require.NoError(t, err)
	require.EqualValues(t, 1, version)
	u, err := parseUsage(usage{bytes: 1 << 40, blocks: 3}.append(nil))
	require.NoError(t, err)
	require.Equal(t, usage{bytes: 1 << 40, blocks: 3}, u)
	_, err = parseUsage([]byte{1})
	require.Error(t, err)
	_, _, err = decodeFrontier([]byte{3, 0, 0})
	require.Error(t, err, "a version to come")
}

func FuzzEntry(f *testing.F) {
	for _, e := range []entry{{inline: []byte("abc")}, {length: 5, at: segfile.Place{Segment: 3, Offset: 4}}} {
		f.Add(e.append(nil))
	}
	f.Add(appendFrontier(nil, segfile.Place{Segment: 1}))
	f.Fuzz(func(t *testing.T, b []byte) {
		if e, err := decodeEntry(b); err == nil {
			again, err := decodeEntry(e.append(nil))
			require.NoError(t, err)
			require.Equal(t, e, again)
		}
		if p, _, err := decodeFrontier(b); err == nil {
			again, _, err := decodeFrontier(appendFrontier(nil, p))
			require.NoError(t, err)
			require.Equal(t, p, again)
		}
	})
}

func FuzzRecord(f *testing.F) {
	id := posix.MakeBlockID(1, 2, 3)
	r := segfile.Record{ID: id, Length: 3, Sum: block.Sum(id, []byte("abc"))}
	header := r.Header()
	f.Add(append(header[:], "abc"...))
	f.Add(append([]byte{'G', 'B', 'K'}, append(header[:], "abc..."...)...))
	f.Fuzz(func(t *testing.T, b []byte) {
		in := scanner{file: bytes.NewReader(b), size: uint64(len(b))}
		for {
			before := in.at
			r, at, ok, err := in.next()
			require.NoError(t, err)
			if !ok {
				break
			}
			require.GreaterOrEqual(t, at, before)
			data, good, err := in.content(&r, at)
			require.NoError(t, err)
			require.Equal(t, block.Sum(r.ID, data) == r.Sum, good)
			header := r.Header()
			require.Equal(t, b[at:in.at], append(header[:], data...))
		}
	})
}
