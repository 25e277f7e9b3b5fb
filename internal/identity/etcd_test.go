package identity

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestEtcdNeedsNamesAndHosts(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"", "a/b", "ca", "client"} {
		_, err := IssueEtcd(dir, name, []string{"h"}, time.Hour)
		require.ErrorContains(t, err, "name", "%q", name)
	}
	_, err := IssueEtcd(dir, "m", nil, time.Hour)
	require.ErrorContains(t, err, "hosts: missing")
	_, err = IssueEtcd(dir, "m", []string{"h:1"}, time.Hour)
	require.ErrorContains(t, err, "without a port")
	require.NoError(t, os.WriteFile(filepath.Join(KeyDir(dir), "etcd-ca-key.pem"), []byte("x"), 0o600))
	_, err = IssueEtcd(dir, "m", []string{"h"}, time.Hour)
	require.ErrorContains(t, err, "etcd-ca")
}

// No directory for servers and clients has a signing key.
func TestKeysThatSignAreApart(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "certs")
	ca, err := NewCA("prod", time.Hour)
	require.NoError(t, err)
	require.NoError(t, SaveCA(dir, ca, false))
	pair, err := ca.Issue(Request{Role: Server, Name: "a"})
	require.NoError(t, err)
	require.NoError(t, pair.Save(FilesIn(dir, Server, "a"), false))
	_, err = IssueEtcd(dir, "m", []string{"h"}, time.Hour)
	require.NoError(t, err)
	_, err = RotateVectorKeys(dir)
	require.NoError(t, err)
	require.Equal(t, []string{"ca-key.pem", "etcd-ca-key.pem", "vector-generation"}, namesOf(t, dir+"-ca"))
	for _, name := range namesOf(t, dir) {
		require.NotContains(t, name, "ca-key")
	}
	info, err := os.Stat(dir + "-ca")
	require.NoError(t, err)
	require.Equal(t, 0o700|fs.ModeDir, info.Mode())

	// A key that an older version has written beside the certificates stays in use.
	for _, name := range []string{"ca-key.pem", "vector-generation"} {
		require.NoError(t, os.Rename(filepath.Join(dir+"-ca", name), filepath.Join(dir, name)))
	}
	again, err := LoadCA(dir)
	require.NoError(t, err)
	require.Equal(t, 1, again.generation)
	t.Chdir(dir)
	require.Equal(t, ".", KeyDir("."))
	require.NoError(t, os.Remove("ca-key.pem"))
	require.Equal(t, dir+"-ca", KeyDir("."))
}

func namesOf(t *testing.T, dir string) (names []string) {
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}
