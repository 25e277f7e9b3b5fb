package kv

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/syndtr/goleveldb/leveldb/journal"
	"github.com/syndtr/goleveldb/leveldb/storage"
)

func TestReopen(t *testing.T) {
	dir := t.TempDir()
	s := openDisk(t, dir)
	s.Set([]byte("a"), []byte("1"))
	require.NoError(t, s.Commit(false))
	require.NoError(t, s.Commit(true))
	s.Set([]byte("b"), []byte("lost"))
	require.NoError(t, s.Close())

	s = openDisk(t, dir)
	require.Equal(t, []string{"a=1"}, collect(s, nil, nil))
	_, err := Open(dir, Options{})
	require.ErrorContains(t, err, "another process has it open")
}

func TestDamageIsReported(t *testing.T) {
	dir := t.TempDir()
	s := openDisk(t, dir)
	for i := range 2000 {
		s.Set(fmt.Appendf(nil, "%d", i), bytes.Repeat([]byte("v"), 100))
		require.NoError(t, s.Commit(false))
	}
	require.NoError(t, s.Close())
	manifests, err := filepath.Glob(filepath.Join(dir, "MANIFEST-*"))
	require.NoError(t, err)
	require.NotEmpty(t, manifests)
	require.NoError(t, os.WriteFile(manifests[0], []byte("not a manifest"), 0o600))
	_, err = Open(dir, Options{})
	require.ErrorContains(t, err, "damaged")
	require.ErrorContains(t, err, dir)
}

// A read finds a damaged table: the store fails, and does not answer "absent".
func TestADamagedTableFailsTheStore(t *testing.T) {
	dir := t.TempDir()
	s := openDisk(t, dir)
	for i := range 2000 {
		s.Set(fmt.Appendf(nil, "%04d", i), fmt.Appendf(nil, "%0100d", i))
		require.NoError(t, s.Commit(false))
	}
	require.NoError(t, s.Close())
	tables, err := filepath.Glob(filepath.Join(dir, "*.ldb"))
	require.NoError(t, err)
	require.NotEmpty(t, tables)
	for _, name := range tables {
		b, err := os.ReadFile(name)
		require.NoError(t, err)
		b[len(b)/4] ^= 1
		require.NoError(t, os.WriteFile(name, b, 0o600))
	}
	s, err = Open(dir, Options{})
	if err == nil {
		collect(s, nil, nil)
		err = s.Commit(false)
		require.Equal(t, err, s.Err())
		require.NoError(t, s.Close())
	}
	require.Error(t, err)
}

// Invariant K1: after damage to any place of the journal, a prefix of the commits is left.
func TestADamagedJournalLeavesAPrefix(t *testing.T) {
	const commits = 40
	dir := t.TempDir()
	s := openDisk(t, dir)
	for i := range commits {
		s.Set([]byte("position"), fmt.Append(nil, i))
		s.Set(fmt.Appendf(nil, "%02d", i), bytes.Repeat([]byte{byte(i)}, 150))
		require.NoError(t, s.Commit(false))
	}
	require.NoError(t, s.Close())
	journals, err := filepath.Glob(filepath.Join(dir, "*.log"))
	require.NoError(t, err)
	require.Len(t, journals, 1)
	intact, err := os.ReadFile(journals[0])
	require.NoError(t, err)
	longest := 0
	for at := 3; at < len(intact); at += 211 {
		copyTo := t.TempDir()
		require.NoError(t, os.CopyFS(copyTo, os.DirFS(dir)))
		damaged := bytes.Clone(intact)
		switch at % 3 {
		case 0:
			damaged[at] ^= 0xff
		case 1:
			damaged = damaged[:at]
		case 2:
			clear(damaged[at:min(at+64, len(damaged))])
		}
		require.NoError(t, os.WriteFile(filepath.Join(copyTo, filepath.Base(journals[0])), damaged, 0o600))
		s, err := Open(copyTo, Options{})
		require.NoError(t, err, "damage at %d", at)
		kept := len(collect(s, nil, []byte("p")))
		if kept > 0 {
			require.Equal(t, fmt.Sprint(kept-1), string(s.Get([]byte("position"))))
			require.NotNil(t, s.Get(fmt.Appendf(nil, "%02d", kept-1)))
		}
		longest = max(longest, kept)
		require.NoError(t, s.Close())
	}
	require.Greater(t, longest, commits/2)
}

// syncs counts the syncs of the journals.
type syncs struct {
	storage.Storage
	count int
}

func (s *syncs) Create(fd storage.FileDesc) (storage.Writer, error) {
	w, err := s.Storage.Create(fd)
	return countingWriter{w, s}, err
}

type countingWriter struct {
	storage.Writer
	to *syncs
}

func (w countingWriter) Sync() error {
	w.to.count++
	return w.Writer.Sync()
}

func TestAJournalIsSyncedWhenItIsClosed(t *testing.T) {
	below := &syncs{Storage: storage.NewMemStorage()}
	files := &journaled{Storage: below}
	for kind, want := range map[storage.FileType]int{storage.TypeJournal: 1, storage.TypeTable: 0} {
		below.count = 0
		w, err := files.Create(storage.FileDesc{Type: kind, Num: 1})
		require.NoError(t, err)
		require.NoError(t, w.Close())
		require.Equal(t, want, below.count)
	}
}

// A gap in front of a continuing journal is not a torn tail: the later entries must not be applied alone.
func TestADamagedSyncedJournalIsRefused(t *testing.T) {
	write := func(files storage.Storage, num int64, cut int) storage.FileDesc {
		fd := storage.FileDesc{Type: storage.TypeJournal, Num: num}
		var b bytes.Buffer
		w := journal.NewWriter(&b)
		for range 3 {
			to, err := w.Next()
			require.NoError(t, err)
			_, err = to.Write([]byte("record"))
			require.NoError(t, err)
		}
		require.NoError(t, w.Close())
		f, err := files.Create(fd)
		require.NoError(t, err)
		_, err = f.Write(b.Bytes()[:max(b.Len()-cut, 0)])
		require.NoError(t, err)
		require.NoError(t, f.Close())
		return fd
	}
	files := &journaled{Storage: storage.NewMemStorage()}
	older := write(files, 1, 3)
	for _, newer := range []struct {
		cut     int
		refused bool
	}{{1000, false}, {0, true}} {
		write(files, 2, newer.cut)
		r, err := files.Open(older)
		require.Equal(t, newer.refused, err != nil, "%v", err)
		if err == nil {
			require.NoError(t, r.Close())
		}
	}
}
