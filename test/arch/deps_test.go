package arch

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the golden files in testdata")

// What the binary is made of changes only with a line in a reviewed file. The standard library
// is left out: it comes with the compiler.
func TestBinaryDependencies(t *testing.T) {
	out, err := goCommand("list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", modulePath+"/cmd/globalfs")
	require.NoError(t, err)
	golden := filepath.Join("testdata", "globalfs.deps")
	got := "# What cmd/globalfs links, in the order of initialisation.\n" +
		"# Made by: go test -count=1 ./test/arch -run BinaryDependencies -update\n" +
		strings.TrimSpace(string(out)) + "\n"
	if *update {
		require.NoError(t, os.WriteFile(golden, []byte(got), 0o644))
	}
	want, err := os.ReadFile(golden)
	require.NoError(t, err)
	require.Equal(t, string(want), got, "if the change is meant: make it with -update, and say why in docs/dependencies.md")
}

// The image is built of what the binary is made of: a directory that the Dockerfile forgets is noticed by nobody else.
func TestImageHasTheSources(t *testing.T) {
	out, err := goCommand("list", "-deps", "-f", "{{.ImportPath}}", modulePath+"/cmd/globalfs")
	require.NoError(t, err)
	dockerfile, err := os.ReadFile("../../Dockerfile")
	require.NoError(t, err)
	for _, imported := range strings.Fields(string(out)) {
		if rel, own := inModule(imported); own {
			dir, _, _ := strings.Cut(rel, "/")
			require.Contains(t, string(dockerfile), "\nCOPY "+dir+" "+dir+"\n", "for %s", imported)
		}
	}
}
