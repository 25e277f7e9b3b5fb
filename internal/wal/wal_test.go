package wal

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// replay gives all records of a log.
func replay(t testing.TB, l *Log) []string {
	t.Helper()
	var got []string
	for r, err := range l.Replay() {
		require.NoError(t, err)
		got = append(got, string(r))
	}
	return got
}

func open(t testing.TB, dir string) *Log {
	t.Helper()
	l, err := Open(dir, Options{Durability: OS})
	require.NoError(t, err)
	return l
}

func batch(records ...string) [][]byte {
	var b [][]byte
	for _, r := range records {
		b = append(b, []byte(r))
	}
	return b
}

// reopened gives the records of the log in a directory, and how many bytes were cut.
func reopened(t testing.TB, dir string) ([]string, int64) {
	t.Helper()
	l := open(t, dir)
	defer func() { require.NoError(t, l.Close()) }()
	return replay(t, l), l.Repaired()
}

func TestAppendAndReplay(t *testing.T) {
	for _, d := range []Durability{Sync, OS} {
		dir := filepath.Join(t.TempDir(), "a", "log")
		l, err := Open(dir, Options{Durability: d})
		require.NoError(t, err)
		require.Empty(t, replay(t, l))
		require.NoError(t, l.Append(batch("one", "", "three"), false))
		require.NoError(t, l.Append(nil, false))
		require.NoError(t, l.Append(batch("four"), false))
		for _, err := range l.Replay() {
			require.ErrorContains(t, err, "after append")
		}
		require.NoError(t, l.Close())
		require.NoError(t, l.Close())
		require.ErrorIs(t, l.Append(batch("x"), false), ErrClosed)
		got, cut := reopened(t, dir)
		require.Equal(t, []string{"one", "", "three", "four"}, got)
		require.Zero(t, cut)
	}
}

func TestCheckpointReplacesTheLog(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir)
	require.NoError(t, l.Append(batch("a", "b"), false))
	require.NoError(t, l.Append(batch("ab", "c"), true))
	require.NoError(t, l.Append(batch("d"), false))
	require.NoError(t, l.Close())
	got, _ := reopened(t, dir)
	require.Equal(t, []string{"ab", "c", "d"}, got)
	require.Equal(t, []string{"0000000000000002.wal"}, segmentsOf(t, dir))

	l = open(t, dir)
	require.NoError(t, l.Append(batch("abcd"), true))
	require.NoError(t, l.Append(batch("e"), false))
	require.NoError(t, l.Close())
	got, _ = reopened(t, dir)
	require.Equal(t, []string{"abcd", "e"}, got)
}

func segmentsOf(t testing.TB, dir string) []string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "*.wal"))
	require.NoError(t, err)
	for i := range paths {
		paths[i] = filepath.Base(paths[i])
	}
	return paths
}

func TestMemoryTouchesNoFile(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "none")
	l, err := Open(dir, Options{Durability: Memory})
	require.NoError(t, err)
	require.NoError(t, l.Append(batch("x"), true))
	require.NoError(t, l.Close())
	_, err = os.Stat(dir)
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestSecondProcessIsRefused(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir)
	_, err := Open(dir, Options{})
	require.ErrorContains(t, err, dir+" is in use by another process")
	require.NoError(t, l.Close())
	require.NoError(t, open(t, dir).Close())
}

func TestStrangeFileIsRefused(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "backup.wal"), nil, 0o600))
	_, err := Open(dir, Options{})
	require.ErrorContains(t, err, "backup.wal is not a segment")
}

func TestRenamedSegmentIsRefused(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, open(t, dir).Close())
	require.NoError(t, os.Rename(filepath.Join(dir, "0000000000000001.wal"), filepath.Join(dir, "0000000000000002.wal")))
	_, err := Open(dir, Options{})
	require.ErrorContains(t, err, "segment 1 under the name of another")
}

// Zeros written ahead are no batch, are overwritten, and cost one write in many. Without space for them the
// log continues without.
func TestZerosAhead(t *testing.T) {
	dir := t.TempDir()
	const ahead = 1000
	l, err := Open(dir, Options{Ahead: ahead})
	require.NoError(t, err)
	var want []string
	size := func() int64 {
		info, err := os.Stat(l.path(1))
		require.NoError(t, err)
		return info.Size()
	}
	sizes := map[int64]bool{}
	for i := range 200 {
		want = append(want, fmt.Sprint("record ", i))
		require.NoError(t, l.Append(batch(want[i]), false))
		require.GreaterOrEqual(t, size(), l.offset)
		sizes[size()] = true
	}
	require.Less(t, len(sizes), 12, "the length changes rarely")
	require.Greater(t, size(), l.offset)
	require.NoError(t, l.Close())
	for _, o := range []Options{{Ahead: ahead}, {}, {Durability: OS, Ahead: ahead}} {
		l, err = Open(dir, o)
		require.NoError(t, err)
		require.Zero(t, l.Repaired())
		require.Equal(t, want, replay(t, l))
		want = append(want, "more")
		require.NoError(t, l.Append(batch("more"), false))
		require.NoError(t, l.Close())
	}

	// A batch that is torn before zeros is cut, as one at the end of a file.
	l, err = Open(dir, Options{Ahead: ahead})
	require.NoError(t, err)
	torn := l.nextBatch(t, "torn")
	_, err = l.file.WriteAt(torn[:len(torn)-1], l.offset)
	require.NoError(t, err)
	require.NoError(t, l.Close())
	l, err = Open(dir, Options{Ahead: ahead})
	require.NoError(t, err)
	require.NotZero(t, l.Repaired())
	require.Equal(t, want, replay(t, l))
	require.NoError(t, l.Close())
}

func BenchmarkAppend(b *testing.B) {
	for _, d := range []struct {
		name string
		Durability
		ahead int
	}{{"Sync", Sync, 0}, {"SyncAhead", Sync, 256 << 10}, {"OS", OS, 0}} {
		for _, size := range []int{100, 10_000, 1_000_000} {
			b.Run(fmt.Sprintf("%s/%d", d.name, size), func(b *testing.B) {
				l, err := Open(b.TempDir(), Options{Durability: d.Durability, Ahead: d.ahead})
				require.NoError(b, err)
				records := [][]byte{make([]byte, size)}
				b.SetBytes(int64(size))
				b.ReportAllocs()
				for i := 0; b.Loop(); i++ {
					if err := l.Append(records, i%1000 == 999); err != nil {
						b.Fatal(err)
					}
				}
				require.NoError(b, l.Close())
			})
		}
	}
}

func BenchmarkReplay(b *testing.B) {
	l := open(b, b.TempDir())
	records := [][]byte{make([]byte, 300), make([]byte, 300), make([]byte, 300)}
	for range 10_000 {
		require.NoError(b, l.Append(records, false))
	}
	l.appended = false
	b.SetBytes(l.offset)
	for b.Loop() {
		for _, err := range l.Replay() {
			require.NoError(b, err)
		}
	}
	require.NoError(b, l.Close())
}
