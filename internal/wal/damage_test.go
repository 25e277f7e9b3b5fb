package wal

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// written makes a log of the batches and gives its only segment with the offsets behind each batch.
func written(t testing.TB, checkpoint bool, batches ...[][]byte) (content []byte, ends []int64) {
	t.Helper()
	dir := t.TempDir()
	l := open(t, dir)
	for i, b := range batches {
		require.NoError(t, l.Append(b, checkpoint && i == 0))
		ends = append(ends, l.offset)
	}
	path := l.path(l.header.number)
	require.NoError(t, l.Close())
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	return content, ends
}

// planted makes a directory with these segments, by number from 1; nil is none.
func planted(t testing.TB, segments ...[]byte) string {
	t.Helper()
	dir := t.TempDir()
	for i, s := range segments {
		if s != nil {
			require.NoError(t, os.WriteFile(filepath.Join(dir, fmt.Sprintf("%016x.wal", i+1)), s, 0o600))
		}
	}
	return dir
}

// TestTornTailIsCutAtEveryByte: the whole batches stay, and the log continues behind them.
func TestTornTailIsCutAtEveryByte(t *testing.T) {
	content, ends := written(t, false, batch("one"), batch("two", "2"), batch("three"))
	want := [][]string{nil, {"one"}, {"one", "two", "2"}, {"one", "two", "2", "three"}}
	for cut := range int64(len(content) + 1) {
		dir := planted(t, content[:cut])
		whole := 0
		for whole < len(ends) && ends[whole] <= cut {
			whole++
		}
		got, repaired := reopened(t, dir)
		require.Equal(t, want[whole], got, "cut at %d", cut)
		switch {
		case cut < segmentHeaderSize:
			require.Equal(t, cut, repaired)
		case whole == 0:
			require.Equal(t, cut-segmentHeaderSize, repaired)
		default:
			require.Equal(t, cut-ends[whole-1], repaired)
		}
		l := open(t, dir)
		require.NoError(t, l.Append(batch("more"), false))
		require.NoError(t, l.Close())
		again, repaired := reopened(t, dir)
		require.Equal(t, append(slices.Clone(want[whole]), "more"), again)
		require.Zero(t, repaired)
	}
}

// The last batch is cut if the length of the file was durable before its bytes.
func TestLostPagesOfTheTail(t *testing.T) {
	content, ends := written(t, false, batch("one"), batch("two"))
	for from := ends[0]; from < ends[1]; from++ {
		torn := slices.Clone(content)
		clear(torn[from:])
		got, repaired := reopened(t, planted(t, torn))
		require.Equal(t, []string{"one"}, got)
		if from == ends[0] {
			require.Zero(t, repaired, "zeros were written ahead")
		} else {
			require.Equal(t, ends[1]-ends[0], repaired)
		}
	}
}

// TestDamagedMiddle: a change of any byte loses no batch silently but the last one.
func TestDamagedMiddle(t *testing.T) {
	content, ends := written(t, true, batch("one"), batch("two", "2"), batch("three"))
	all := []string{"one", "two", "2", "three"}
	for i := range content {
		damaged := slices.Clone(content)
		damaged[i] ^= 0x10
		dir := planted(t, nil, damaged)
		l, err := Open(dir, Options{Durability: OS})
		if int64(i) < ends[1] {
			var corrupt *CorruptError
			require.ErrorAs(t, err, &corrupt, "byte %d", i)
			require.Contains(t, err.Error(), filepath.Join(dir, "0000000000000002.wal")+" is damaged at offset ")
			continue
		}
		require.NoError(t, err)
		require.Equal(t, all[:3], replay(t, l))
		require.Equal(t, int64(len(content))-ends[1], l.Repaired())
		require.NoError(t, l.Close())
	}
}

// Adjacent batches without consecutive numbers are damage, except at the end.
func TestMissingBatch(t *testing.T) {
	content, ends := written(t, false, batch("one"), batch("two"), batch("three"), batch("four"))
	for missing := 1; missing < 3; missing++ {
		spliced := slices.Concat(content[:ends[missing-1]], content[ends[missing]:])
		_, err := Open(planted(t, spliced), Options{})
		var corrupt *CorruptError
		require.ErrorAs(t, err, &corrupt)
		require.Equal(t, ends[missing-1], corrupt.Offset)
	}
	twice := slices.Concat(content[:ends[1]], content[ends[0]:ends[1]])
	got, repaired := reopened(t, planted(t, twice))
	require.Equal(t, []string{"one", "two"}, got)
	require.Equal(t, ends[1]-ends[0], repaired)
}

func TestTornCheckpointLeavesTheOldLog(t *testing.T) {
	old, _ := written(t, false, batch("one"), batch("two"))
	checkpoint, ends := written(t, true, batch("both"))
	for cut := range ends[0] {
		got, repaired := reopened(t, planted(t, old, checkpoint[:cut]))
		require.Equal(t, []string{"one", "two"}, got)
		require.Equal(t, cut, repaired)
	}
	dir := planted(t, old, checkpoint)
	got, _ := reopened(t, dir)
	require.Equal(t, []string{"both"}, got)
	require.Equal(t, []string{"0000000000000002.wal"}, segmentsOf(t, dir))
}

func TestLogWithoutBeginningIsRefused(t *testing.T) {
	checkpoint, ends := written(t, true, batch("both"))
	for cut := range ends[0] {
		_, err := Open(planted(t, nil, checkpoint[:cut]), Options{})
		require.ErrorContains(t, err, "no older segment")
	}
}

// FuzzReplay changes a log: there is no panic, and the replayed records are whole batches that were written.
func FuzzReplay(f *testing.F) {
	batches := [][][]byte{batch("one"), batch("two", "2"), batch("three")}
	content, _ := written(f, true, batches...)
	f.Add(uint16(40), byte(1), uint16(0))
	f.Add(uint16(60), byte(255), uint16(3))
	f.Add(uint16(0), byte(0), uint16(70))
	prefixes := [][]string{nil, {"one"}, {"one", "two", "2"}, {"one", "two", "2", "three"}}
	f.Fuzz(func(t *testing.T, at uint16, change byte, cut uint16) {
		damaged := slices.Clone(content)
		damaged[int(at)%len(damaged)] ^= change
		damaged = damaged[:len(damaged)-int(cut)%(len(damaged)+1)]
		l, err := Open(planted(t, nil, damaged), Options{Durability: OS})
		if err != nil {
			return
		}
		got := replay(t, l)
		require.Contains(t, prefixes, got)
		require.NoError(t, l.Close())
	})
}

// FuzzSegment opens arbitrary bytes.
func FuzzSegment(f *testing.F) {
	content, _ := written(f, true, batch("one"), batch("two"))
	f.Add(content)
	f.Add([]byte(magic))
	f.Fuzz(func(t *testing.T, content []byte) {
		l, err := Open(planted(t, content), Options{Durability: OS})
		if err != nil {
			return
		}
		for _, err := range l.Replay() {
			require.NoError(t, err)
		}
		require.NoError(t, l.Close())
	})
}
