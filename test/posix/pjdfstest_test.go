package posix

import (
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestPjdfstest runs all of pjdfstest in a local and in the global partition.
func TestPjdfstest(t *testing.T) {
	program := tester(t, "pjdfstest")
	c := startCluster(t)
	partitions(t, c, func(t *testing.T, dir string) {
		out, err := command(t, dir, program, "-c", pjdfstestConfig(t), "-p", dir)
		t.Log(regexp.MustCompile(`(?m)^Summary:.*`).FindString(out))
		failed := regexp.MustCompile(`(?m)^\S+ +(FAILED|PASSED UNEXPECTEDLY)\n(\t.*)?`).FindAllString(out, -1)
		require.NoError(t, err, "%s\n%s", strings.Join(failed, "\n"), lastLines(out, 5))
	})
}

// pjdfstestConfig writes the configuration: what is tested beside the base, as whom, and what is
// known to fail.
func pjdfstestConfig(t *testing.T) string {
	config := fmt.Sprintf(`
[features]
posix_fallocate = {}
rename_ctime = {}
utime_now = {}
utimensat = {}
secondary_fs = %q

[settings]
naptime = 0.01
allow_remount = false
expected_failures = [%s]

[dummy_auth]
entries = [%s, %s]
`, t.TempDir(), strings.Join(knownFailures(t), ", "), userAndGroup(t, "nobody"), userAndGroup(t, "daemon"))
	path := filepath.Join(t.TempDir(), "pjdfstest.toml")
	require.NoError(t, os.WriteFile(path, []byte(config), 0o644))
	return path
}

// knownFailures gives the quoted names that docs/limits.md lists.
func knownFailures(t *testing.T) []string {
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "limits.md"))
	require.NoError(t, err)
	_, section, found := strings.Cut(string(text), "\n## pjdfstest\n")
	require.True(t, found, "docs/limits.md has no section pjdfstest")
	section, _, _ = strings.Cut(section, "\n## ")
	var names []string
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z0-9_:]+)` \\|").FindAllStringSubmatch(section, -1) {
		names = append(names, fmt.Sprintf("%q", row[1]))
	}
	return names
}

// userAndGroup gives a user that every system has, and the name of its group here.
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
