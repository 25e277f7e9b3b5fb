package kv

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/digest"
)

// filledWith returns a Fill of single-letter keys.
func filledWith(letters string, end error) Fill {
	return func(set func(key, value []byte) error) error {
		for i := range letters {
			if err := set([]byte(letters[i:i+1]), []byte("new")); err != nil {
				return err
			}
		}
		return end
	}
}

func contents(s *Store) string {
	all := ""
	for key, value := range s.Scan(nil, nil) {
		all += string(key) + "=" + string(value) + " "
	}
	return all
}

// An error of fill leaves the store as it was. A store in memory changes at once.
func TestReplaceInMemory(t *testing.T) {
	s := NewMemory()
	at := []byte("digest")
	require.NoError(t, s.KeepDigest(at, func([]byte) digest.Part { return digest.Whole }))
	s.Set([]byte("a"), []byte("old"))
	broken := errors.New("broken")
	require.ErrorIs(t, s.Replace(filledWith("bc", broken)), broken)
	require.Equal(t, "a=old ", contents(s))
	require.NoError(t, s.Replace(filledWith("cb", nil)))
	require.Equal(t, "b=new c=new ", contents(s))
	require.Zero(t, s.Pending())
	var h digest.Hasher
	require.Equal(t, h.Entry([]byte("b"), []byte("new")).Add(h.Entry([]byte("c"), []byte("new"))), s.Digest())
}

// A store on disk keeps its content until the next Open, and loses what was written after Replace. Nothing is
// left beside it.
func TestReplaceOnDisk(t *testing.T) {
	parent := t.TempDir()
	dir := filepath.Join(parent, "state")
	s, err := Open(dir, Options{})
	require.NoError(t, err)
	s.Set([]byte("a"), []byte("old"))
	require.NoError(t, s.Commit(true))
	broken := errors.New("broken")
	require.ErrorIs(t, s.Replace(filledWith("bc", broken)), broken)
	require.Equal(t, []string{"state"}, namesIn(t, parent))
	require.NoError(t, s.Replace(filledWith("x", nil)))
	require.NoError(t, s.Replace(filledWith("bc", nil)), "the last one counts")
	s.Set([]byte("late"), []byte("lost"))
	require.NoError(t, s.Commit(true))
	require.Equal(t, "a=old late=lost ", contents(s))
	require.NoError(t, s.Close())
	for range 2 {
		s, err = Open(dir, Options{})
		require.NoError(t, err)
		require.Equal(t, "b=new c=new ", contents(s))
		require.NoError(t, s.Close())
		require.Equal(t, []string{"state"}, namesIn(t, parent))
	}
}

// The process may end at any step of Replace and Open: the next Open has the former content or the new one,
// whole.
func TestReplaceInterrupted(t *testing.T) {
	for what, c := range map[string]struct {
		leave func(dir string) error
		want  string
	}{
		"while it is filled":              {func(dir string) error { return os.Rename(dir+filled, dir+filling) }, "a=old "},
		"before the former one is gone":   {func(string) error { return nil }, "b=new "},
		"while the former one is deleted": {func(dir string) error { return os.Remove(filepath.Join(dir, "CURRENT")) }, "b=new "},
		"before the rename":               {os.RemoveAll, "b=new "},
	} {
		dir := filepath.Join(t.TempDir(), "state")
		s, err := Open(dir, Options{})
		require.NoError(t, err)
		s.Set([]byte("a"), []byte("old"))
		require.NoError(t, s.Commit(true))
		require.NoError(t, s.Replace(filledWith("b", nil)))
		require.NoError(t, s.Close())
		require.NoError(t, c.leave(dir), what)
		s, err = Open(dir, Options{})
		require.NoError(t, err, what)
		require.Equal(t, c.want, contents(s), what)
		require.NoError(t, s.Close())
	}
}

// Another process that opens the store, which is in use, takes no replacement away.
func TestReplaceWhileItIsOpen(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	s, err := Open(dir, Options{})
	require.NoError(t, err)
	s.Set([]byte("a"), []byte("old"))
	require.NoError(t, s.Commit(true))
	opens := func(set func(key, value []byte) error) error {
		_, err := Open(dir, Options{})
		require.ErrorContains(t, err, "another process has it open")
		return filledWith("b", nil)(set)
	}
	require.NoError(t, s.Replace(opens))
	_, err = Open(dir, Options{})
	require.ErrorContains(t, err, "another process has it open")
	require.Equal(t, "a=old ", contents(s))
	require.NoError(t, s.Close())
	s, err = Open(dir, Options{})
	require.NoError(t, err)
	require.Equal(t, "b=new ", contents(s))
	require.NoError(t, s.Close())
}

// A large store is filled with a bounded part in memory: it is committed in batches.
func TestReplaceIsBounded(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	s, err := Open(dir, Options{})
	require.NoError(t, err)
	value := make([]byte, 64<<10)
	require.NoError(t, s.Replace(func(set func(key, value []byte) error) error {
		for i := range 256 {
			if err := set([]byte{byte(i)}, value); err != nil {
				return err
			}
		}
		journals, err := filepath.Glob(dir + filling + "/*")
		require.NoError(t, err)
		require.Greater(t, sizeOf(t, journals), int64(14<<20))
		return err
	}))
	require.NoError(t, s.Close())
}

func sizeOf(t *testing.T, files []string) (bytes int64) {
	t.Helper()
	for _, f := range files {
		info, err := os.Stat(f)
		require.NoError(t, err)
		bytes += info.Size()
	}
	return bytes
}

func namesIn(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}
