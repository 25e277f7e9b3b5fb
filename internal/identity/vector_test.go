package identity

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// issueTo makes a certificate in the directory of a CA.
func issueTo(t *testing.T, ca *CA, dir string, role Role, name string) Files {
	t.Helper()
	pair, err := ca.Issue(Request{Role: role, Name: name})
	require.NoError(t, err)
	files := FilesIn(dir, role, name)
	require.NoError(t, pair.Save(files, true))
	return files
}

// newServer returns a new CA, the directory in which it is stored, and the files of a server there.
func newServer(t *testing.T) (ca *CA, dir string, files Files) {
	t.Helper()
	dir = t.TempDir()
	ca, err := NewCA("prod", time.Hour)
	require.NoError(t, err)
	require.NoError(t, SaveCA(dir, ca, false))
	return ca, dir, issueTo(t, ca, dir, Server, "n1")
}

func keysOf(t *testing.T, files Files) [][]byte {
	t.Helper()
	c, err := Load(files, nil)
	require.NoError(t, err)
	return c.VectorKeys()
}

// All servers of a CA share the vector keys, and no other process has them. A rotation keeps the last key.
func TestVectorKeys(t *testing.T) {
	dir := t.TempDir()
	made, err := NewCA("prod", time.Hour)
	require.NoError(t, err)
	require.NoError(t, SaveCA(dir, made, false))
	ca, err := LoadCA(dir)
	require.NoError(t, err)
	n1, n2 := issueTo(t, ca, dir, Server, "n1"), issueTo(t, made, dir, Server, "n2")
	first := keysOf(t, n1)
	require.Len(t, first, 1)
	require.Equal(t, first, keysOf(t, n2))
	require.Empty(t, keysOf(t, issueTo(t, ca, dir, Admin, "op")))
	other, err := NewCA("prod", time.Hour)
	require.NoError(t, err)
	elsewhere := t.TempDir()
	require.NoError(t, SaveCA(elsewhere, other, false))
	require.NotEqual(t, first, keysOf(t, issueTo(t, other, elsewhere, Server, "n1")))
	info, err := os.Stat(n1.Key)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())

	for generation := range 3 {
		servers, err := RotateVectorKeys(dir)
		require.NoError(t, err)
		require.Equal(t, []string{"n1", "n2"}, servers)
		rotated := keysOf(t, n1)
		require.Len(t, rotated, 2)
		require.Equal(t, rotated, keysOf(t, n2))
		require.Equal(t, first[0], rotated[1], "generation %d: the last key stays valid", generation)
		require.NotEqual(t, first[0], rotated[0])
		first = rotated
	}
	again, err := LoadCA(dir)
	require.NoError(t, err)
	require.Equal(t, first, keysOf(t, issueTo(t, again, dir, Server, "n3")), "a server that joins has the present keys")
}

// A renewed key, and one with new vector keys, keeps its group and the permission of the group to read: the
// server of the systemd unit is not root. No other permission is kept.
func TestReadersOfARenewedKey(t *testing.T) {
	ca, dir, files := newServer(t)
	group := os.Getgid()
	if os.Getuid() == 0 {
		group = 7420
	}
	require.NoError(t, os.Chown(files.Key, -1, group))
	require.NoError(t, os.Chmod(files.Key, 0o666))
	for name, renew := range map[string]func() error{
		"certificate": func() error { issueTo(t, ca, dir, Server, "n1"); return nil },
		"vector keys": func() error { _, err := RotateVectorKeys(dir); return err },
	} {
		before, err := os.ReadFile(files.Key)
		require.NoError(t, err)
		require.NoError(t, renew(), name)
		after, err := os.ReadFile(files.Key)
		require.NoError(t, err)
		require.NotEqual(t, before, after, name)
		info, err := os.Stat(files.Key)
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o640), info.Mode().Perm(), name)
		require.EqualValues(t, group, info.Sys().(*syscall.Stat_t).Gid, name)
	}
	require.NoError(t, os.Chmod(dir, 0o770)) // another member of the group may have put the key there
	issueTo(t, ca, dir, Server, "n1")
	info, err := os.Stat(files.Key)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
}

// A key file of an older version gets the vector keys; the private key does not change.
func TestVectorKeysForAnOldKeyFile(t *testing.T) {
	ca, dir, files := newServer(t)
	want := keysOf(t, files)
	data, err := os.ReadFile(files.Key)
	require.NoError(t, err)
	private, _ := parseKeyFile(data)
	require.NoError(t, os.WriteFile(files.Key, private, 0o600))
	require.Empty(t, keysOf(t, files))
	changed, err := ca.SaveVectorKeys(files)
	require.NoError(t, err)
	require.True(t, changed)
	require.Equal(t, want, keysOf(t, files))
	changed, err = ca.SaveVectorKeys(files)
	require.NoError(t, err)
	require.False(t, changed)

	short := appendVectorKeys(private, [][]byte{{1, 2, 3}})
	require.NoError(t, os.WriteFile(files.Key, short, 0o600))
	_, err = Load(files, nil)
	require.ErrorContains(t, err, "vector key has 3 bytes")
	require.NoError(t, os.WriteFile(filepath.Join(KeyDir(dir), generationFile), []byte("many"), 0o600))
	_, err = LoadCA(dir)
	require.ErrorContains(t, err, generationFile)
}
