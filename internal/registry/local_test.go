package registry

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/test/bubble"
)

// openLocal opens the file at path, which must be whole.
func openLocal(t *testing.T, path string) *Local {
	t.Helper()
	l, err := OpenLocal(path)
	require.NoError(t, err)
	return l
}

func TestLocalKeepsWhatItAcknowledged(t *testing.T) {
	path := filepath.Join(t.TempDir(), "registry.json")
	l := openLocal(t, path)
	d, created, err := l.Bootstrap(t.Context(), []byte("regions: [a]\n"))
	require.NoError(t, err)
	require.True(t, created)
	require.NoError(t, l.Mark(t.Context(), "alpha"))
	require.NoError(t, l.Claim(t.Context(), alpha))

	l = openLocal(t, path)
	again, err := l.Load(t.Context())
	require.NoError(t, err)
	require.Equal(t, d, again)
	marked, err := l.Marked(t.Context(), "alpha")
	require.NoError(t, err)
	require.True(t, marked)
	alive, err := l.Alive(t.Context())
	require.NoError(t, err)
	require.Empty(t, alive, "servers end with their process")

	version, err := l.Swap(t.Context(), again.Version, []byte("regions: [b]\n"))
	require.NoError(t, err)
	require.Greater(t, version, again.Version)
	now, err := openLocal(t, path).Load(t.Context())
	require.NoError(t, err)
	require.Equal(t, Document{Value: []byte("regions: [b]\n"), Version: version}, now)
}

// A failed write of the file changes nothing, and a write succeeds once the file can be written.
func TestLocalThatCannotBeWritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "registry.json")
	l := openLocal(t, path)
	d, _, err := l.Bootstrap(t.Context(), []byte("born"))
	require.NoError(t, err)
	require.NoError(t, os.Mkdir(path+".new", 0o700)) // the path of the next content
	_, err = l.Swap(t.Context(), d.Version, []byte("changed"))
	require.ErrorIs(t, err, ErrUnavailable)
	require.ErrorContains(t, err, path)
	require.ErrorIs(t, l.Mark(t.Context(), "alpha"), ErrUnavailable)
	marked, err := l.Marked(t.Context(), "alpha")
	require.NoError(t, err)
	require.False(t, marked)
	now, err := l.Load(t.Context())
	require.NoError(t, err)
	require.Equal(t, d, now)
	require.NoError(t, os.Remove(path+".new"))
	_, err = l.Swap(t.Context(), d.Version, []byte("changed"))
	require.NoError(t, err)
}

func TestLocalFilesThatAreDamaged(t *testing.T) {
	for content, words := range map[string]string{
		"":                                       "EOF",
		"{":                                      "unexpected EOF",
		"{}":                                     "no whole description",
		`{"version":1,"started":{}}`:             "no whole description",
		`{"description":"x","started":{}}`:       "no whole description",
		`{"version":1,"description":"x"}`:        "no whole description",
		`{"version":-1}`:                         "cannot unmarshal",
		`{"version":1,"leases":[],"started":{}}`: "unknown field",
	} {
		path := filepath.Join(t.TempDir(), "registry.json")
		require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
		_, err := OpenLocal(path)
		require.ErrorContains(t, err, words, content)
		require.ErrorContains(t, err, path)
		require.ErrorContains(t, err, "from a backup")
	}
}

// A server that was claimed and never announced counts as live for a lease.
func TestLocalClaimEnds(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		l := openLocal(t, filepath.Join(t.TempDir(), "registry.json"))
		require.NoError(t, l.Claim(t.Context(), alpha))
		other := Presence{Name: alpha.Name, Instance: "beef"}
		time.Sleep(DefaultLease - time.Second)
		awaitAlive(t, l, alpha)
		require.ErrorIs(t, l.Claim(t.Context(), other), ErrTaken)
		time.Sleep(time.Second)
		alive, err := l.Alive(t.Context())
		require.NoError(t, err)
		require.Empty(t, alive)
		require.NoError(t, l.Claim(t.Context(), other))
	})
}
