package objects_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/block"
	"github.com/globalfs/globalfs/internal/block/blocktest"
	"github.com/globalfs/globalfs/internal/block/objects"
	"github.com/globalfs/globalfs/internal/block/objects/objectstest"
	"github.com/globalfs/globalfs/internal/posix"
)

// TestKilledServer: acknowledged blocks are there when the server is back after its death. Meanwhile all
// calls return that it is not available, in time.
func TestKilledServer(t *testing.T) {
	server := objectstest.Start(t, t.TempDir())
	c := config(server, "p")
	c.Timeout = 10 * time.Second // refused connections do not take that long
	s := open(t, c)
	var acknowledged sync.Map
	var writers sync.WaitGroup
	var next atomic.Int64
	for range 4 {
		writers.Go(func() {
			for {
				i := int(next.Add(1))
				id, data := blocktest.Block(i, 40000)
				err := s.Put(t.Context(), block.New(id, data))
				if err != nil {
					if !errors.Is(err, block.ErrUnavailable) {
						t.Errorf("put without a server: %v", err)
					}
					return
				}
				acknowledged.Store(i, true)
				if i == 40 {
					server.Kill()
				}
			}
		})
	}
	writers.Wait()
	id, data := blocktest.Block(1, 40000)
	begin := time.Now()
	_, err := s.Get(t.Context(), id, nil)
	require.ErrorIs(t, err, block.ErrUnavailable)
	require.ErrorIs(t, s.Delete(t.Context(), []block.ID{id}), block.ErrUnavailable)
	_, err = blocktest.Collect(s.Range(t.Context(), block.ID{}, block.LastID))
	require.ErrorIs(t, err, block.ErrUnavailable)
	_, err = objects.Open(t.Context(), c)
	require.ErrorIs(t, err, block.ErrUnavailable)
	require.Less(t, time.Since(begin), 5*c.Timeout)

	server.Restart(t)
	n := 0
	acknowledged.Range(func(i, _ any) bool {
		n++
		id, data := blocktest.Block(i.(int), 40000)
		blocktest.RequireBlock(t, s, id, data)
		return true
	})
	require.GreaterOrEqual(t, n, 37)
	require.NoError(t, s.Put(t.Context(), block.New(id, data)))
}

// TestHungServer: a call ends after the timeout, or at once with its context.
func TestHungServer(t *testing.T) {
	server := objectstest.Start(t, t.TempDir())
	c := config(server, "p")
	c.Timeout = 2 * time.Second
	s := open(t, c)
	id, data := blocktest.Block(1, 200000)
	require.NoError(t, s.Put(t.Context(), block.New(id, data)))
	server.Pause(t)
	_, err := s.Get(t.Context(), id, nil)
	require.ErrorIs(t, err, block.ErrUnavailable)
	other, _ := blocktest.Block(2, 1)
	require.ErrorIs(t, s.Put(t.Context(), block.New(other, data)), block.ErrUnavailable)
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, cancel)
	began := time.Now()
	_, err = s.Get(ctx, id, nil)
	require.ErrorIs(t, err, context.Canceled)
	require.NotErrorIs(t, err, block.ErrUnavailable)
	require.Less(t, time.Since(began), c.Timeout)
	server.Resume(t)
	blocktest.RequireBlock(t, s, id, data)
}

// TestBadCopies: a modified object is never returned, and the next put replaces it.
func TestBadCopies(t *testing.T) {
	server := objectstest.Start(t, t.TempDir())
	s := open(t, config(server, "p"))
	for name, spoil := range map[string]func([]byte) []byte{
		"altered":   func(b []byte) []byte { b[len(b)/2] ^= 1; return b },
		"checksum":  func(b []byte) []byte { b[5] ^= 1; return b },
		"truncated": func(b []byte) []byte { return b[:len(b)-1] },
		"header":    func(b []byte) []byte { return b[:8] },
		"empty":     func([]byte) []byte { return nil },
		"longer":    func(b []byte) []byte { return append(b, 0) },
		"too long":  func(b []byte) []byte { return append(b, make([]byte, block.MaxSize)...) },
		"other": func([]byte) []byte {
			id, data := blocktest.Block(2, 5000)
			require.NoError(t, s.Put(t.Context(), block.New(id, data)))
			b, err := os.ReadFile(filepath.Join(server.Dir, objectstest.Bucket, "p", id.String()))
			require.NoError(t, err)
			return b
		},
	} {
		id, data := blocktest.Block(1, 5000)
		require.NoError(t, s.Put(t.Context(), block.New(id, data)), name)
		file := filepath.Join(server.Dir, objectstest.Bucket, "p", id.String())
		content, err := os.ReadFile(file)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(file, spoil(content), 0o644))
		_, err = s.Get(t.Context(), id, nil)
		require.ErrorIs(t, err, block.ErrCorrupt, name)
		require.NoError(t, s.Put(t.Context(), block.New(id, data)), name)
		blocktest.RequireBlock(t, s, id, data)
	}
}

// TestPutsOfOneBlock puts two contents of one block at the same time. All puts of one content succeed, and
// all puts of the other content fail.
func TestPutsOfOneBlock(t *testing.T) {
	server := objectstest.Start(t, t.TempDir())
	s := open(t, config(server, "p"))
	for round := range 5 {
		id, _ := blocktest.Block(round, 1)
		var winner, conflicts atomic.Int64
		var writers sync.WaitGroup
		for i := range 16 {
			writers.Go(func() {
				_, data := blocktest.Block(100+i%2, 50000)
				switch err := s.Put(t.Context(), block.New(id, data)); {
				case err == nil:
					winner.Store(int64(100 + i%2))
				case errors.Is(err, block.ErrConflict):
					conflicts.Add(1)
				default:
					t.Errorf("put: %v", err)
				}
			})
		}
		writers.Wait()
		require.EqualValues(t, 8, conflicts.Load())
		_, data := blocktest.Block(int(winner.Load()), 50000)
		blocktest.RequireBlock(t, s, id, data)
	}
}

// TestManyKeys lists and deletes more than one page, among objects that are no blocks.
func TestManyKeys(t *testing.T) {
	server := objectstest.Start(t, t.TempDir())
	s := open(t, config(server, "deep/prefix"))
	dir := filepath.Join(server.Dir, objectstest.Bucket, "deep", "prefix")
	for _, foreign := range []string{"0", "00000000-notes", "zz", "0123456789ABCDEF0123456789ABCDEF"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, foreign), nil, 0o644))
	}
	var ids []block.ID
	for i := range 2100 {
		id := posix.MakeBlockID(uint16(i), 1, uint64(i))
		require.NoError(t, os.WriteFile(filepath.Join(dir, id.String()), nil, 0o644))
		ids = append(ids, id)
	}
	got, err := blocktest.Collect(s.Range(t.Context(), block.ID{}, block.LastID))
	require.NoError(t, err)
	require.Equal(t, ids, got)
	got, err = blocktest.Collect(s.Range(t.Context(), ids[17], ids[1500]))
	require.NoError(t, err)
	require.Equal(t, ids[17:1501], got)
	require.NoError(t, s.Delete(t.Context(), ids[:2050]))
	got, err = blocktest.Collect(s.Range(t.Context(), block.ID{}, block.LastID))
	require.NoError(t, err)
	require.Equal(t, ids[2050:], got)
}

// Two clusters cannot use one prefix, since they would have blocks with the same ids.
func TestPrefixIsOneClusters(t *testing.T) {
	server := objectstest.Start(t, t.TempDir())
	c := config(server, "p")
	c.Existing = true
	_, err := objects.Open(t.Context(), c)
	require.ErrorContains(t, err, "has nothing of this cluster under the prefix \"p\"")
	c.Existing = false
	open(t, c)
	c.Existing = true
	open(t, c)
	c.Cluster = "two"
	_, err = objects.Open(t.Context(), c)
	require.ErrorContains(t, err, "another cluster under the prefix \"p\": give another prefix")
	c.Prefix, c.Existing = "", false
	open(t, c)
}

// TestRefused: errors that an operator must correct are reported, and are neither a missing block nor an
// absent server.
func TestRefused(t *testing.T) {
	server := objectstest.Start(t, t.TempDir())
	good := config(server, "p")
	refused := func(c objects.Config, say string) {
		_, err := objects.Open(t.Context(), c)
		require.ErrorContains(t, err, say)
		require.NotErrorIs(t, err, block.ErrNotFound)
		require.NotErrorIs(t, err, block.ErrUnavailable)
		require.NotContains(t, err.Error(), objectstest.SecretKey)
	}
	c := good
	c.Bucket = "nobodys"
	refused(c, "make the bucket")

	file := filepath.Join(t.TempDir(), "credentials")
	c = good
	c.Credentials = file
	for text, say := range map[string]string{
		"[default]\naws_access_key_id = " + objectstest.AccessKey + "\naws_secret_access_key = wrong\n": "check the secret access key",
		"[default]\naws_access_key_id = nobody\naws_secret_access_key = wrong\n":                        "does not know the access key",
		"[default]\n": file,
	} {
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		refused(c, say)
	}
	c.Credentials = file + "-missing"
	refused(c, c.Credentials)
	require.NoError(t, os.WriteFile(file, []byte("[default]\naws_access_key_id = "+objectstest.AccessKey+"\naws_secret_access_key = "+objectstest.SecretKey+"\n"), 0o600))
	c.Credentials = file
	t.Setenv("AWS_SECRET_ACCESS_KEY", "wrong")
	open(t, c)

	t.Setenv("AWS_SECRET_ACCESS_KEY", objectstest.SecretKey)
	s := open(t, good)
	require.NoError(t, os.RemoveAll(filepath.Join(server.Dir, objectstest.Bucket)))
	id, data := blocktest.Block(1, 10)
	for _, err := range []error{s.Put(t.Context(), block.New(id, data)), s.Delete(t.Context(), []block.ID{id})} {
		require.ErrorContains(t, err, "make the bucket")
	}
	_, err := s.Get(t.Context(), id, nil)
	require.ErrorContains(t, err, "make the bucket")
	require.NotErrorIs(t, err, block.ErrNotFound)
}

// TestFullDisk: a full storage reports that, and continues when there is space again.
func TestFullDisk(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=3m"); err != nil {
		t.Skipf("cannot mount a small disk: run as root (%v)", err)
	}
	t.Cleanup(func() { require.NoError(t, syscall.Unmount(dir, syscall.MNT_DETACH)) })
	server := objectstest.Start(t, dir)
	s := open(t, config(server, "p"))
	var err error
	i := 0
	for ; i < 10 && err == nil; i++ {
		id, data := blocktest.Block(i, block.MaxSize)
		err = s.Put(t.Context(), block.New(id, data))
	}
	require.ErrorIs(t, err, block.ErrNoSpace)
	id, data := blocktest.Block(0, block.MaxSize)
	blocktest.RequireBlock(t, s, id, data)
	require.NoError(t, s.Delete(t.Context(), []block.ID{id}))
	id, data = blocktest.Block(i-1, block.MaxSize)
	require.NoError(t, s.Put(t.Context(), block.New(id, data)))
	blocktest.RequireBlock(t, s, id, data)
}
