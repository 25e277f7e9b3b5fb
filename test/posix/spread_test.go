package posix

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// spreadRule places new entries of a directory in the global and in two local partitions, by their names.
const spreadRule = `{"spread": ["global", "` + near + `", "` + far + `"]}`

// spread sets the rule of a directory.
func spread(t *testing.T, dir string) {
	t.Helper()
	require.NoError(t, unix.Setxattr(dir, "globalfs.place", []byte(spreadRule), 0))
}

// spreadAll returns the environment of a test program that sets the rule on all its temporary directories.
func spreadAll(t *testing.T) []string {
	t.Helper()
	if _, err := exec.LookPath("cc"); err != nil {
		t.Skip("no cc: deploy/deps.sh test installs gcc")
	}
	library := filepath.Join(t.TempDir(), "spread.so")
	out, err := command(t, ".", "cc", "-shared", "-fPIC", "-o", library, filepath.Join("testdata", "spread.c"), "-ldl")
	require.NoError(t, err, "%s", out)
	return []string{"LD_PRELOAD=" + library, "GLOBALFS_SPREAD=" + spreadRule}
}

// readRegion returns the region of a file's metadata.
func readRegion(path string) (string, error) {
	value := make([]byte, 100)
	n, err := unix.Getxattr(path, "globalfs.region", value)
	return string(value[:max(n, 0)]), err
}

func regionOf(t *testing.T, path string) string {
	t.Helper()
	region, err := readRegion(path)
	require.NoError(t, err, path)
	return region
}

// requireSpread checks that the rule applies: each of the regions gets some of 20 new files.
func requireSpread(t *testing.T, dir string) {
	t.Helper()
	regions := map[string]int{}
	for i := range 20 {
		path := filepath.Join(dir, fmt.Sprint("spread-", i))
		require.NoError(t, os.WriteFile(path, nil, 0o644))
		regions[regionOf(t, path)]++
		require.NoError(t, os.Remove(path))
	}
	require.Len(t, regions, 3, "%v", regions)
}

// TestSpreadAll: the preloaded library sets the rule; otherwise the tests with it would test nothing new.
func TestSpreadAll(t *testing.T) {
	env := spreadAll(t)
	c := startCluster(t)
	dir := c.in(near, ".tmp-spread")
	out, err := commandWith(t, env, ".", "mkdir", dir)
	require.NoError(t, err, "%s", out)
	requireSpread(t, dir)
}

// foreignFile makes a file in another partition than its directory, which has the spread rule.
func foreignFile(t *testing.T, dir string) string {
	t.Helper()
	for i := range 100 {
		path := filepath.Join(dir, fmt.Sprint("file-", i))
		require.NoError(t, os.WriteFile(path, nil, 0o644))
		if regionOf(t, path) != regionOf(t, dir) {
			return path
		}
	}
	require.Fail(t, "all files are where their directory is")
	return ""
}
