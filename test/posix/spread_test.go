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

// spreadRule sends what is made in a directory to the global and to two local partitions, by its name.
const spreadRule = `{"spread": ["global", "` + near + `", "` + far + `"]}`

// spread gives a directory the rule.
func spread(t *testing.T, dir string) {
	t.Helper()
	require.NoError(t, unix.Setxattr(dir, "globalfs.place", []byte(spreadRule), 0))
}

// spreadAll makes the environment of a tester whose temporary directories are all to have the rule.
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

// readRegion says where a file's metadata is.
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

// requireSpread checks that the rule is followed: of some files some are in each of the regions.
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

// TestSpreadAll: the preloaded library does its part, or the tests that rely on it would test nothing new.
func TestSpreadAll(t *testing.T) {
	env := spreadAll(t)
	c := startCluster(t)
	dir := c.in(near, ".tmp-spread")
	out, err := commandWith(t, env, ".", "mkdir", dir)
	require.NoError(t, err, "%s", out)
	requireSpread(t, dir)
}

// foreignFile makes a file in another partition than its directory, whose rule spreads what is in it.
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
