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

// The servers' certificate never ends before an earlier one, even if a later member's certificate does. A
// certificate of another CA does not count.
func TestEtcdClientKeepsItsEnd(t *testing.T) {
	dir := t.TempDir()
	end := func() time.Time {
		pair, err := readPair(EtcdFiles(dir))
		require.NoError(t, err)
		return pair.Leaf.NotAfter
	}
	issue := func(member string, validity time.Duration) {
		_, err := IssueEtcd(dir, member, []string{"h"}, validity)
		require.NoError(t, err)
	}
	issue("m0", 100*time.Hour)
	long := end()
	issue("m1", time.Hour)
	require.WithinDuration(t, long, end(), time.Minute)
	issue("m2", 200*time.Hour)
	require.WithinDuration(t, long.Add(100*time.Hour), end(), time.Minute)

	require.NoError(t, os.Remove(EtcdFiles(dir).CA))
	require.NoError(t, os.Remove(filepath.Join(KeyDir(dir), "etcd-ca-key.pem")))
	issue("m3", time.Hour)
	require.WithinDuration(t, time.Now().Add(time.Hour), end(), time.Minute)
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
