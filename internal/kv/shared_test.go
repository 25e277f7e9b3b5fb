package kv

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

func openShared(t testing.TB, dir string) *Shared {
	s, err := OpenShared(dir, Options{WriteBuffer: 16 << 10})
	require.NoError(t, err)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			require.ErrorIs(t, err, ErrClosed)
		}
	})
	return s
}

func numbered(i int) (key, value []byte) {
	return fmt.Appendf(nil, "%05d", i), fmt.Appendf(nil, "%0100d", i)
}

// Readers see whole batches only, during any writes.
func TestSharedReadsWhileWriting(t *testing.T) {
	s := openShared(t, t.TempDir())
	const batches, size = 300, 10
	var readers sync.WaitGroup
	done := make(chan struct{})
	for range 4 {
		readers.Go(func() {
			for {
				n := 0
				err := s.Scan(nil, nil, func([]byte, []byte) bool { n++; return true })
				if err != nil || n%size != 0 {
					t.Errorf("%d keys: %v", n, err)
					return
				}
				select {
				case <-done:
					return
				default:
				}
			}
		})
	}
	for i := range batches {
		var b Batch
		for k := range size {
			b.Set(numbered(i*size + k))
		}
		require.Positive(t, b.Size())
		require.NoError(t, s.Write(&b, i%50 == 0))
	}
	close(done)
	readers.Wait()
	var b Batch
	b.Delete([]byte("00007"))
	b.Set([]byte("empty"), nil)
	require.NoError(t, s.Write(&b, true))
	key, value := numbered(8)
	got, err := s.Get(key)
	require.NoError(t, err)
	require.Equal(t, value, got)
	got, err = s.Get([]byte("00007"))
	require.NoError(t, err)
	require.Nil(t, got)
	got, err = s.Get([]byte("empty"))
	require.NoError(t, err)
	require.NotNil(t, got, "an empty value is there")
	var some []string
	require.NoError(t, s.Scan([]byte("00005"), []byte("00009"), func(k, _ []byte) bool {
		some = append(some, string(k))
		return len(some) < 3
	}))
	require.Equal(t, []string{"00005", "00006", "00008"}, some)

	require.NoError(t, s.Close())
	_, err = s.Get(key)
	require.ErrorIs(t, err, ErrClosed)
	require.ErrorIs(t, s.Write(&b, false), ErrClosed)
	require.ErrorIs(t, s.Scan(nil, nil, func(_, _ []byte) bool { return true }), ErrClosed)
}

// The store notices a flipped bit anywhere in its files when it matters: a read gives the written entries, or
// an error that is ErrDamaged, or (for the newest journal) a prefix of the batches.
func TestSharedFindsFlippedBits(t *testing.T) {
	const keys = 600
	dir := t.TempDir()
	s := openShared(t, dir)
	for i := range keys {
		var b Batch
		b.Set(numbered(i))
		require.NoError(t, s.Write(&b, false))
	}
	require.NoError(t, s.Close())
	names, err := filepath.Glob(filepath.Join(dir, "*"))
	require.NoError(t, err)
	flips, damaged := 0, 0
	for _, name := range names {
		whole, err := os.ReadFile(name)
		require.NoError(t, err)
		base := filepath.Base(name)
		step := max(len(whole)/12, 1)
		for at := 0; at < len(whole); at += step {
			if strings.HasSuffix(base, ".ldb") && at+step >= len(whole)-2*footerSize {
				step = 5 // more of the footer
			}
			copyTo := filepath.Join(t.TempDir(), "store")
			require.NoError(t, os.CopyFS(copyTo, os.DirFS(dir)))
			b := bytes.Clone(whole)
			b[at] ^= 1 << (at % 8)
			require.NoError(t, os.WriteFile(filepath.Join(copyTo, base), b, 0o600))
			flips++
			if err := readAll(t, copyTo, keys, strings.HasSuffix(base, ".log")); err != nil {
				require.ErrorIs(t, err, ErrDamaged, "%s offset %d", base, at)
				damaged++
			}
		}
	}
	require.Greater(t, damaged, flips/3)
	require.Less(t, damaged, flips, "some bits do not matter")
}

// readAll reads a store of numbered keys, and gives the first error.
func readAll(t *testing.T, dir string, keys int, prefix bool) error {
	s, err := OpenShared(dir, Options{WriteBuffer: 16 << 10})
	if err != nil {
		return err
	}
	defer func() { require.NoError(t, s.Close()) }()
	n, last := 0, ""
	err = s.Scan(nil, nil, func(k, v []byte) bool {
		key, value := numbered(n)
		require.Equal(t, string(key), string(k))
		require.Equal(t, string(value), string(v))
		n, last = n+1, string(k)
		return true
	})
	if err == nil && !prefix {
		require.Equal(t, keys, n, "after %s", last)
	}
	for i := range keys {
		key, value := numbered(i)
		got, getErr := s.Get(key)
		if err = errors.Join(err, getErr); getErr == nil && got != nil {
			require.Equal(t, string(value), string(got))
		} else if getErr == nil {
			require.True(t, prefix && i >= n, "key %d is absent", i)
		}
	}
	var b Batch
	b.Set([]byte("more"), []byte("x"))
	return errors.Join(err, s.Write(&b, false))
}

// The footer of a table has no checksum, and may contain any bytes.
func TestAFooterCannotNameWhatIsNotThere(t *testing.T) {
	dir := t.TempDir()
	s := openShared(t, dir)
	for i := range 600 {
		var b Batch
		b.Set(numbered(i))
		require.NoError(t, s.Write(&b, false))
	}
	require.NoError(t, s.Close())
	tables, err := filepath.Glob(filepath.Join(dir, "*.ldb"))
	require.NoError(t, err)
	require.NotEmpty(t, tables)
	for _, name := range tables {
		b, err := os.ReadFile(name)
		require.NoError(t, err)
		footer := b[len(b)-footerSize:]
		copy(footer, binary.AppendUvarint(binary.AppendUvarint(nil, 0), 1<<50))
		require.NoError(t, os.WriteFile(name, b, 0o600))
	}
	require.ErrorIs(t, readAll(t, dir, 600, false), ErrDamaged)
}
