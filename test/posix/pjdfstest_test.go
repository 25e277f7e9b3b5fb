package posix

import (
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/test/program"
)

// TestPjdfstest runs all of pjdfstest in a local and in the global partition, and in directories with their
// names spread over partitions.
func TestPjdfstest(t *testing.T) {
	suite := tester(t, "pjdfstest")
	c := startCluster(t)
	partitions(t, c, func(t *testing.T, dir string) {
		var env []string
		if strings.HasSuffix(t.Name(), "/spread") {
			env = spreadAll(t)
		}
		runPjdfstest(t, suite, dir, env)
	})
}

// TestPjdfstestShards runs all of pjdfstest in a region with three partitions, over which directories spread.
func TestPjdfstestShards(t *testing.T) {
	suite := tester(t, "pjdfstest")
	requireMount(t)
	c := startClusterIn(t, shortDir(t), "--regions", near+","+far, "--partitions", "3", "--global-partitions", "2")
	dir := c.in(near, near, "shards")
	require.NoError(t, os.Mkdir(dir, 0o755))
	inos := map[uint64]bool{}
	for i := range 20 {
		info, err := os.Stat(mkdir(t, dir, fmt.Sprint("spread-", i)))
		require.NoError(t, err)
		inos[info.Sys().(*syscall.Stat_t).Ino>>48] = true
	}
	if !*delegate { // directories in a held one stay in its partition
		require.Len(t, inos, 3, "the homes of 20 directories")
	}
	runPjdfstest(t, suite, dir, nil)
}

func mkdir(t *testing.T, dir, name string) string {
	path := filepath.Join(dir, name)
	require.NoError(t, os.Mkdir(path, 0o755))
	return path
}

// runPjdfstest runs all of pjdfstest in a directory. Failures that docs/posix.md does not list fail the test.
// The tests that make the mount read-only run by themselves: others leave removed files open, with which the
// kernel refuses that.
func runPjdfstest(t *testing.T, suite, dir string, env []string) {
	t.Helper()
	judgePjdfstest(t, env, dir, suite, "-c", pjdfstestConfig(t, false), "-p", dir)
	env = append(env, "PATH="+mountInstalled(t)+":"+os.Getenv("PATH"))
	judgePjdfstest(t, env, dir, suite, "-c", pjdfstestConfig(t, true), "-p", dir, "erofs")
}

func judgePjdfstest(t *testing.T, env []string, dir, suite string, args ...string) (summary string) {
	t.Helper()
	known := knownFailures(t)
	out, err := commandWith(t, env, dir, suite, args...)
	summary = regexp.MustCompile(`(?m)^Summary:.*`).FindString(out)
	require.NotEmpty(t, summary, "pjdfstest did not come to its end: %v\n%s", err, lastLines(out, 40))
	t.Log(summary)
	for _, failed := range regexp.MustCompile(`(?m)^(\S+) +FAILED\n(\t.*)?`).FindAllStringSubmatch(out, -1) {
		reason, ok := known[failed[1]]
		assert.True(t, ok, "%s:%s", failed[1], failed[2])
		t.Logf("known to fail: %s: %s", failed[1], reason)
	}
	return summary
}

// mountInstalled returns a directory with a command mount that remounts as mount(8) does where the helper
// /sbin/mount.fuse.globalfs is installed.
func mountInstalled(t *testing.T) string {
	dir := t.TempDir()
	helper := filepath.Join(dir, "mount.fuse.globalfs")
	require.NoError(t, os.Symlink(program.Path(t), helper))
	script := "#!/bin/sh\nexec " + helper + ` globalfs "$3" -o "nosuid,nodev,relatime,$2"` + "\n"
	require.NoError(t, os.WriteFile(filepath.Join(dir, "mount"), []byte(script), 0o755))
	return dir
}

// pjdfstestConfig writes the configuration: the tested features beside the base, and the users.
func pjdfstestConfig(t *testing.T, remount bool) string {
	config := fmt.Sprintf(`
[features]
posix_fallocate = {}
rename_ctime = {}
utime_now = {}
utimensat = {}
secondary_fs = %q

[settings]
naptime = 0.01
allow_remount = %t

[dummy_auth]
entries = [%s, %s]
`, t.TempDir(), remount, userAndGroup(t, "nobody"), userAndGroup(t, "daemon"))
	path := filepath.Join(t.TempDir(), "pjdfstest.toml")
	require.NoError(t, os.WriteFile(path, []byte(config), 0o644))
	return path
}

// knownFailures returns the failures in docs/posix.md with their reasons.
func knownFailures(t *testing.T) map[string]string {
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "posix.md"))
	require.NoError(t, err)
	_, section, found := strings.Cut(string(text), "\n## pjdfstest\n")
	require.True(t, found, "docs/posix.md has no section pjdfstest")
	section, _, _ = strings.Cut(section, "\n## ")
	known := map[string]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z0-9_:]+)` \\| (.*) \\|$").FindAllStringSubmatch(section, -1) {
		known[row[1]] = row[2]
	}
	return known
}

// userAndGroup returns the name of a user that every system has, and the name of its group on this system.
func userAndGroup(t *testing.T, name string) string {
	u, err := user.Lookup(name)
	require.NoError(t, err)
	g, err := user.LookupGroupId(u.Gid)
	require.NoError(t, err)
	return fmt.Sprintf("[%q, %q]", u.Username, g.Name)
}

func lastLines(text string, n int) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
