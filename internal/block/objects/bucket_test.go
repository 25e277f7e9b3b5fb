package objects_test

import (
	"bytes"
	"io/fs"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/backup"
	"github.com/globalfs/globalfs/internal/block"
	"github.com/globalfs/globalfs/internal/block/objects"
	"github.com/globalfs/globalfs/internal/block/objects/objectstest"
)

var _ backup.Storage = (*objects.Bucket)(nil)

// TestBucket: objects are put, replaced, found, listed and read; those of other prefixes are not seen.
func TestBucket(t *testing.T) {
	server := objectstest.Start(t, t.TempDir())
	open := func(prefix string) *objects.Bucket {
		b, err := objects.OpenBucket(t.Context(), config(server, prefix))
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, b.Close()) })
		return b
	}
	b, other := open("a"), open("other")
	_, err := b.Get(t.Context(), "backups/1.json")
	require.ErrorIs(t, err, fs.ErrNotExist)
	names, err := b.List(t.Context(), "backups")
	require.NoError(t, err)
	require.Empty(t, names)
	large := bytes.Repeat([]byte("0123456789abcdef"), 200_000)
	for name, data := range map[string][]byte{
		"backups/2.json": []byte("two"), "backups/1.json": []byte("one"), "backups/deeper/3.json": []byte("three"), "chunks/aa/aa": large,
	} {
		require.NoError(t, b.Put(t.Context(), name, []byte("before")))
		require.NoError(t, b.Put(t.Context(), name, data))
		has, err := b.Has(t.Context(), name)
		require.NoError(t, err)
		require.True(t, has, name)
		has, err = other.Has(t.Context(), name)
		require.NoError(t, err)
		require.False(t, has, name)
		got, err := b.Get(t.Context(), name)
		require.NoError(t, err)
		require.Equal(t, data, got, name)
	}
	names, err = b.List(t.Context(), "backups")
	require.NoError(t, err)
	require.Equal(t, []string{"backups/1.json", "backups/2.json"}, names)

	c := config(server, "a")
	c.Bucket = "missing"
	missing, err := objects.OpenBucket(t.Context(), c)
	require.NoError(t, err)
	_, err = missing.List(t.Context(), "backups")
	require.Error(t, err, "a bucket that does not exist is not an empty one")
	server.Kill()
	require.ErrorIs(t, b.Put(t.Context(), "x", nil), block.ErrUnavailable)
}
