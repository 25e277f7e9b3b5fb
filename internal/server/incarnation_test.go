package server

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestIncarnationGrows(t *testing.T) {
	path := filepath.Join(t.TempDir(), "incarnation")
	for want := range uint64(3) {
		got, err := nextIncarnation(path)
		require.NoError(t, err)
		require.Equal(t, want+1, got)
	}
	require.NoError(t, os.WriteFile(path, []byte("x"), 0o600))
	got, err := nextIncarnation(path)
	require.NoError(t, err)
	require.EqualValues(t, 4, got, "from the copy")
	for _, p := range []string{path, path + ".copy"} {
		require.NoError(t, os.WriteFile(p, []byte("x"), 0o600))
	}
	_, err = nextIncarnation(path)
	require.ErrorContains(t, err, "restore it")
}
