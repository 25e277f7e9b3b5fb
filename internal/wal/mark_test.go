package wal

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// nextBatch returns a batch as Append would write it.
func (l *Log) nextBatch(t testing.TB, records ...string) []byte {
	t.Helper()
	b, err := appendBatch(nil, l.header.seed(), l.number+1, batch(records...))
	require.NoError(t, err)
	return b
}

// filesOf gives the content of the files in a directory.
func filesOf(t testing.TB, dir string) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		files[e.Name()], err = os.ReadFile(filepath.Join(dir, e.Name()))
		require.NoError(t, err)
	}
	return files
}

// opened opens a log with such files, and gives its records.
func opened(t testing.TB, files map[string][]byte, o Options) ([]string, int64, error) {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), content, 0o600))
	}
	l, err := Open(dir, o)
	if err != nil {
		return nil, 0, err
	}
	got := replay(t, l)
	require.NoError(t, l.Append(batch("goes on"), false))
	require.NoError(t, l.Close())
	return got, l.Repaired(), nil
}

func requireCorrupt(t testing.TB, err error, text string, args ...any) {
	t.Helper()
	var corrupt *CorruptError
	require.ErrorAs(t, err, &corrupt, args...)
	require.ErrorContains(t, err, text)
}

// TestRottenTail: damage to acknowledged batches is not taken for a torn end, at any place.
func TestRottenTail(t *testing.T) {
	for name, o := range map[string]Options{"sync": {}, "zeros ahead": {Ahead: 100}, "os": {Durability: OS, Boot: "1"}} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			l, err := Open(dir, o)
			require.NoError(t, err)
			require.NoError(t, l.Append(batch("one"), false))
			before := filesOf(t, dir)
			require.NoError(t, l.Append(batch("two"), true))
			last := l.offset
			require.NoError(t, l.Append(batch("three", "3"), false))
			end := l.offset
			require.NoError(t, l.Close())
			files := filesOf(t, dir)
			const segment = "0000000000000002.wal"
			for at := range end {
				if name != "os" && at%7 != 0 {
					continue
				}
				rotten := maps.Clone(files)
				rotten[segment] = slices.Clone(files[segment])
				rotten[segment][at] ^= 0x40
				_, _, err = opened(t, rotten, o)
				requireCorrupt(t, err, "is damaged at offset", "byte %d", at)
				if at < last {
					continue
				}
				rotten[segment] = files[segment][:at]
				_, _, err = opened(t, rotten, o)
				requireCorrupt(t, err, "batch 2 is damaged or missing", "cut at %d", at)
			}
			older := maps.Clone(before)
			older[markName] = files[markName]
			_, _, err = opened(t, older, o)
			requireCorrupt(t, err, "the log went on in segment 2")
			_, _, err = opened(t, map[string][]byte{markName: files[markName]}, o)
			requireCorrupt(t, err, segment+" is damaged at offset 0")

			other := maps.Clone(files)
			l, err = Open(t.TempDir(), o)
			require.NoError(t, err)
			require.NoError(t, l.Append(batch("of another log"), true))
			require.NoError(t, l.Close())
			other[segment] = filesOf(t, l.dir)[segment]
			_, _, err = opened(t, other, o)
			requireCorrupt(t, err, "not the segment 2 that was acknowledged")

			got, _, err := opened(t, files, o)
			require.NoError(t, err)
			require.Equal(t, []string{"two", "three", "3"}, got)
		})
	}
}

// TestTornBehindTheMark: a batch that was under way when the process died is cut, at any place.
func TestTornBehindTheMark(t *testing.T) {
	for name, o := range map[string]Options{"sync": {}, "os": {Durability: OS, Boot: "1"}} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			l, err := Open(dir, o)
			require.NoError(t, err)
			require.NoError(t, l.Append(batch("one"), false))
			require.NoError(t, l.Append(batch("two"), false))
			torn := l.nextBatch(t, "three")
			require.NoError(t, l.Close())
			files := filesOf(t, dir)
			whole := files["0000000000000001.wal"]
			for cut := range torn {
				files["0000000000000001.wal"] = slices.Concat(whole, torn[:cut])
				got, repaired, err := opened(t, files, o)
				require.NoError(t, err)
				require.Equal(t, []string{"one", "two"}, got)
				require.EqualValues(t, cut, repaired)
			}
		})
	}
}

// TestLossOfPowerBehindTheMark: with OS, a loss of power may take all unsynced batches, and no other batch.
func TestLossOfPowerBehindTheMark(t *testing.T) {
	dir := t.TempDir()
	o := Options{Durability: OS, Boot: "1"}
	l, err := Open(dir, o)
	require.NoError(t, err)
	ends := []int64{l.offset}
	for i, record := range []string{"one", "two", "three", "four"} {
		require.NoError(t, l.Append(batch(record), false))
		ends = append(ends, l.offset)
		if i == 1 {
			require.NoError(t, l.Sync())
		}
	}
	require.NoError(t, l.Close())
	files := filesOf(t, dir)
	all := files["0000000000000001.wal"]
	for n, end := range ends {
		files["0000000000000001.wal"] = all[:end]
		for _, boot := range []string{"1", "2", ""} {
			o.Boot = boot
			got, _, err := opened(t, files, o)
			if n < 2 || n < 4 && boot == "1" {
				requireCorrupt(t, err, "damaged or missing")
				continue
			}
			require.NoError(t, err)
			require.Len(t, got, n)
		}
	}
}

// A damaged or missing mark requires no batches.
func TestDamagedMark(t *testing.T) {
	dir := t.TempDir()
	l, err := Open(dir, Options{})
	require.NoError(t, err)
	require.NoError(t, l.Append(batch("one"), false))
	require.NoError(t, l.Close())
	files := filesOf(t, dir)
	good := files[markName]
	require.Len(t, good, markSize)
	files[markName] = append(slices.Clone(good), 0) // bytes behind the mark do not count
	files["0000000000000001.wal"] = files["0000000000000001.wal"][:l.offset-1]
	_, _, err = opened(t, files, Options{})
	requireCorrupt(t, err, "batch 1 is damaged or missing")
	files = filesOf(t, dir)
	for at := range good {
		damaged := slices.Clone(good)
		damaged[at] ^= 4
		require.Nil(t, decodeMark(damaged))
		require.Nil(t, decodeMark(good[:at]))
		if at%8 != 0 {
			continue
		}
		files[markName] = damaged
		got, _, err := opened(t, files, Options{Durability: OS})
		require.NoError(t, err)
		require.Equal(t, []string{"one"}, got)
	}
	delete(files, markName)
	got, _, err := opened(t, files, Options{})
	require.NoError(t, err)
	require.Equal(t, []string{"one"}, got)
}

// pages are the files of a kernel that reports a failed sync once: it does not write those pages again.
type pages struct {
	fail    bool
	dirty   map[string]map[int64]byte
	durable map[string][]byte
}

func (p *pages) open(path string, flag int) (file, error) {
	f, err := openFile(path, flag)
	return &pagesFile{p, path, f}, err
}

type pagesFile struct {
	*pages
	path string
	file
}

func (f *pagesFile) WriteAt(b []byte, at int64) (int, error) {
	if f.dirty[f.path] == nil {
		f.dirty[f.path] = map[int64]byte{}
	}
	for i, c := range b {
		f.dirty[f.path][at+int64(i)] = c
	}
	return f.file.WriteAt(b, at)
}

func (f *pagesFile) SyncData() error {
	dirty := f.dirty[f.path]
	delete(f.dirty, f.path)
	if f.fail {
		f.fail = false
		return syscall.EIO
	}
	durable := f.durable[f.path]
	for at, c := range dirty {
		if need := int(at) + 1 - len(durable); need > 0 {
			durable = append(durable, make([]byte, need)...)
		}
		durable[at] = c
	}
	f.durable[f.path] = durable
	return nil
}

// TestFailedSyncIsNotForgotten: batches that were acknowledged before a failed sync are on disk once they are
// replayed, or Open reports that they are missing.
func TestFailedSyncIsNotForgotten(t *testing.T) {
	dir := t.TempDir()
	p := &pages{dirty: map[string]map[int64]byte{}, durable: map[string][]byte{}}
	o := Options{Durability: OS, Boot: "1", open: p.open}
	l, err := Open(dir, o)
	require.NoError(t, err)
	path := l.path(1)
	require.NoError(t, l.Append(batch("one"), false))
	require.NoError(t, l.Sync())
	require.NoError(t, l.Append(batch("two"), false))
	p.fail = true
	require.ErrorIs(t, l.Sync(), syscall.EIO)
	require.NoError(t, l.Close())
	lost := p.durable[path]
	require.NotEqual(t, filesOf(t, dir)["0000000000000001.wal"], lost)
	mark := filesOf(t, dir)[markName]

	// The kernel forgets the pages, and the file has its old content: Open notices that.
	_, _, err = opened(t, map[string][]byte{"0000000000000001.wal": lost, markName: mark}, Options{Durability: OS, Boot: "1"})
	requireCorrupt(t, err, "batch 2 is damaged or missing")

	// It keeps the pages, and takes them for written: they are written again.
	l, err = Open(dir, o)
	require.NoError(t, err)
	require.Equal(t, []string{"one", "two"}, replay(t, l))
	require.Equal(t, Position{1, 2}, l.Durable())
	require.NoError(t, l.Close())
	got, _, err := opened(t, map[string][]byte{"0000000000000001.wal": p.durable[path]}, Options{Durability: OS, Boot: "2"})
	require.NoError(t, err)
	require.Equal(t, []string{"one", "two"}, got)
}

// TestOldErrorAtTheStart: the first sync of a log may report an error of another process's writes. The
// batches are written and synced once more.
func TestOldErrorAtTheStart(t *testing.T) {
	dir := t.TempDir()
	p := &pages{dirty: map[string]map[int64]byte{}, durable: map[string][]byte{}}
	o := Options{Durability: OS, Boot: "1", open: p.open}
	l, err := Open(dir, o)
	require.NoError(t, err)
	path := l.path(1)
	require.NoError(t, l.Append(batch("one"), false))
	require.NoError(t, l.Close())
	p.fail = true
	l, err = Open(dir, o)
	require.NoError(t, err)
	require.Equal(t, Position{1, 1}, l.Durable())
	require.NoError(t, l.Close())
	got, _, err := opened(t, map[string][]byte{filepath.Base(path): p.durable[path]}, Options{Durability: OS, Boot: "2"})
	require.NoError(t, err)
	require.Equal(t, []string{"one"}, got)
}
