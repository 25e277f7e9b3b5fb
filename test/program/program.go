// Package program builds the program globalfs for tests that run it in processes of its own.
package program

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// Name is the name of the file.
const Name = "globalfs"

// built is the directory of the program of this test binary; empty: it was not built.
var built string

// build builds the program once for all tests of the binary.
var build = sync.OnceValue(func() (err error) {
	if built, err = os.MkdirTemp("", "globalfs-program-"); err != nil {
		return err
	}
	return Build(filepath.Join(built, Name))
})

// Build builds the program as a file, with additional flags of go build.
func Build(path string, flags ...string) error {
	args := slices.Concat([]string{"build"}, flags, []string{"-o", path, "github.com/globalfs/globalfs/cmd/globalfs"})
	cmd := exec.Command("go", args...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go build: %w\n%s", err, out)
	}
	return nil
}

// Variable names a program that was built elsewhere, for a machine without Go. Its directory may have other
// files.
const Variable = "GLOBALFS_TEST_PROGRAM"

// Path returns the path of the program. The directory of the program has no other file. The package of the
// test must call Main.
func Path(t testing.TB) string {
	t.Helper()
	if path := os.Getenv(Variable); path != "" {
		return path
	}
	require.NoError(t, build())
	return filepath.Join(built, Name)
}

// Main runs the tests of a package, removes the program and returns the exit code. A TestMain calls Main.
func Main(m *testing.M) int {
	code := m.Run()
	if built == "" {
		return code
	}
	if err := os.RemoveAll(built); err != nil {
		fmt.Fprintln(os.Stderr, "program:", err)
		return max(code, 1)
	}
	return code
}
