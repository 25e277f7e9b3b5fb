package mutants

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var runAll = flag.Bool("mutants", false, "run the test of each mutant, for minutes")

// mutant is one patch.
type mutant struct {
	name  string
	patch string   // its absolute path
	files []string // that it changes, from the root of the module
	test  string   // that finds it
	dir   string   // of the package of the test
	seeds int      // of the simulator within which it does; 0: the test has no seeds
}

// simulator is the package of the tests with seeds.
const simulator = "internal/sim"

var (
	foundBy  = regexp.MustCompile(`(?m)^Found by: (Test\w+) (?:within (\d+) seeds|in ([\w/]+))\.$`)
	changed  = regexp.MustCompile(`(?m)^\+\+\+ b/(\S+)$`)
	replayed = regexp.MustCompile(`-sim\.seed=(\d+)`)
)

// mutants reads all patches.
func mutants(t *testing.T) (all []mutant) {
	paths, err := filepath.Glob("*.patch")
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(paths), 12)
	for _, path := range paths {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		found := foundBy.FindSubmatch(text)
		require.NotNil(t, found, "%s: no line like %q or %q", path,
			"Found by: TestPrimCastCuts within 100 seeds.", "Found by: TestScrub in internal/block/region.")
		m := mutant{name: strings.TrimSuffix(path, ".patch"), test: string(found[1]), dir: string(found[3])}
		m.patch, err = filepath.Abs(path)
		require.NoError(t, err)
		if m.dir == "" {
			m.dir = simulator
			m.seeds, err = strconv.Atoi(string(found[2]))
			require.NoError(t, err)
		}
		for _, f := range changed.FindAllSubmatch(text, -1) {
			m.files = append(m.files, string(f[1]))
		}
		all = append(all, m)
	}
	return all
}

// root returns the directory of the module.
func root(t *testing.T) string {
	dir, err := filepath.Abs("../..")
	require.NoError(t, err)
	return dir
}

// overlay patches copies of the files. It returns the name of a file for 'go build -overlay' that replaces
// the originals by the copies.
func (m *mutant) overlay(t *testing.T) string {
	dir := t.TempDir()
	return writeOverlay(t, dir, m.apply(t, dir))
}

// apply patches copies of the files in a directory. It returns the copy of each file.
func (m *mutant) apply(t *testing.T, dir string) (replace map[string]string) {
	replace = map[string]string{}
	for _, f := range m.files {
		original, patched := filepath.Join(root(t), f), filepath.Join(dir, f)
		text, err := os.ReadFile(original)
		require.NoError(t, err)
		require.NoError(t, os.MkdirAll(filepath.Dir(patched), 0o700))
		require.NoError(t, os.WriteFile(patched, text, 0o600))
		replace[original] = patched
	}
	apply := exec.Command("git", "apply", m.patch)
	apply.Dir = dir
	apply.Env = append(os.Environ(), "GIT_CEILING_DIRECTORIES="+filepath.Dir(dir)) // no repository around matters
	said, err := apply.CombinedOutput()
	require.NoError(t, err, "%s does not apply any more, make it anew:\n%s", m.patch, said)
	return replace
}

func writeOverlay(t *testing.T, dir string, replace map[string]string) string {
	text, err := json.Marshal(map[string]any{"Replace": replace})
	require.NoError(t, err)
	name := filepath.Join(dir, "overlay.json")
	require.NoError(t, os.WriteFile(name, text, 0o600))
	return name
}

// goCommand runs the go command in the root of the module.
func goCommand(t *testing.T, args ...string) (output string, err error) {
	cmd := exec.Command("go", args...)
	cmd.Dir = root(t)
	said, err := cmd.CombinedOutput()
	return string(said), err
}

// run runs the test that finds m.
func (m *mutant) run(t *testing.T, flags ...string) (output string, err error) {
	args := append([]string{"test", "-count=1", "-vet=off", "-timeout=10m"}, flags...)
	args = append(args, "-run", "^"+m.test+"$", "./"+m.dir)
	if m.seeds > 0 {
		args = append(args, fmt.Sprintf("-sim.seeds=%d", m.seeds))
	}
	return goCommand(t, args...)
}

// isFound reports whether a failed test has found the mutant: its output must show a failure of the test and
// not of the build. what contains the seed, if the test has seeds.
func (m *mutant) isFound(output string) (what string, found bool) {
	if m.seeds == 0 {
		return "", strings.Contains(output, "--- FAIL: "+m.test)
	}
	seed := replayed.FindStringSubmatch(output)
	if seed == nil {
		return "", false
	}
	return fmt.Sprintf(", seed %s of %d,", seed[1], m.seeds), true
}

// apart puts mutants into few groups, in each of which no two change the same file.
func apart(all []mutant) (groups [][]mutant) {
	place := func(m mutant) {
		for i, g := range groups {
			if !slices.ContainsFunc(g, func(o mutant) bool { return o.overlaps(&m) }) {
				groups[i] = append(g, m)
				return
			}
		}
		groups = append(groups, []mutant{m})
	}
	for _, m := range all {
		place(m)
	}
	return groups
}

func (m *mutant) overlaps(other *mutant) bool {
	return slices.ContainsFunc(m.files, func(f string) bool { return slices.Contains(other.files, f) })
}

// TestMutantsCompile: each patch applies to the code as it is, and the result is a program. Mutants that
// change different files are compiled together.
func TestMutantsCompile(t *testing.T) {
	for i, group := range apart(mutants(t)) {
		t.Run(fmt.Sprint("group ", i+1), func(t *testing.T) {
			dir, replace := t.TempDir(), map[string]string{}
			args := []string{"build", "-overlay", ""}
			for _, m := range group {
				maps.Copy(replace, m.apply(t, dir))
				for _, f := range m.files {
					args = append(args, "./"+filepath.Dir(f))
				}
			}
			args[2] = writeOverlay(t, dir, replace)
			said, err := goCommand(t, args...)
			require.NoError(t, err, said)
		})
	}
}

// TestMutantsAreFound, each by the test and within the seeds that its patch names.
func TestMutantsAreFound(t *testing.T) {
	if !*runAll {
		t.Skip("by design: it takes minutes: make mutants")
	}
	for _, m := range mutants(t) {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			start := time.Now()
			output, err := m.run(t, "-overlay", m.overlay(t))
			what, found := m.isFound(output)
			require.True(t, err != nil && found, "%s finds nothing (seeds: %d):\n%s", m.test, m.seeds, output)
			t.Logf("%s: found by %s%s in %.1f s", m.name, m.test, what, time.Since(start).Seconds())
		})
	}
}

// TestUnbrokenIsNotFound: the same tests pass, with as many seeds, on the code as it is.
func TestUnbrokenIsNotFound(t *testing.T) {
	if !*runAll {
		t.Skip("by design: it takes minutes: make mutants")
	}
	most := map[string]mutant{}
	for _, m := range mutants(t) {
		if before, ok := most[m.test]; !ok || m.seeds > before.seeds {
			most[m.test] = m
		}
	}
	for test, m := range most {
		t.Run(test, func(t *testing.T) {
			t.Parallel()
			output, err := m.run(t)
			require.NoError(t, err, output)
			t.Logf("%s: nothing (seeds: %d)", test, m.seeds)
		})
	}
}
