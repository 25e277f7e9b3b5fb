package arch

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the golden files in testdata")

// The packages of a binary change only with a line in a reviewed file. The standard library is left out: it
// comes with the compiler.
func TestBinaryDependencies(t *testing.T) {
	for _, binary := range []string{"globalfs", "globalfs-lab"} {
		golden := filepath.Join("testdata", binary+".deps")
		got := "# What cmd/" + binary + " links, in the order of initialisation.\n" +
			"# Made by: go test -count=1 ./test/arch -run BinaryDependencies -update\n" +
			strings.Join(dependencies(t, binary), "\n") + "\n"
		if *update {
			require.NoError(t, os.WriteFile(golden, []byte(got), 0o644))
		}
		want, err := os.ReadFile(golden)
		require.NoError(t, err)
		require.Equal(t, string(want), got, "if the change is meant: make it with -update, and say why in docs/dependencies.md")
	}
}

// dependencies lists the packages that a binary links, without those of the standard library.
func dependencies(t *testing.T, binary string) []string {
	out, err := goCommand("list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", modulePath+"/cmd/"+binary)
	require.NoError(t, err)
	return strings.Fields(string(out))
}

// laboratoryLibraries are the libraries that only globalfs-lab links.
var laboratoryLibraries = []string{"gonum.org", "github.com/google/pprof"}

// The product links no packages of the laboratory, neither its own nor its libraries.
func TestProductLinksNoLaboratory(t *testing.T) {
	for _, linked := range dependencies(t, "globalfs") {
		rel, own := inModule(linked)
		require.False(t, own && inLaboratory(rel), "cmd/globalfs links %s", linked)
		for _, library := range laboratoryLibraries {
			require.False(t, strings.HasPrefix(linked, library), "cmd/globalfs links %s", linked)
		}
	}
}

// The image is built only from the product's sources. No other test detects a directory that is missing in
// the Dockerfile, or a directory of the laboratory in the build.
func TestImageHasTheProductsSources(t *testing.T) {
	copied := copiedIntoTheImage(t)
	used := map[string]bool{}
	for _, linked := range dependencies(t, "globalfs") {
		rel, own := inModule(linked)
		if !own {
			continue
		}
		i := slices.IndexFunc(copied, func(dir string) bool { return rel == dir || strings.HasPrefix(rel, dir+"/") })
		require.GreaterOrEqual(t, i, 0, "the Dockerfile copies no directory of %s", linked)
		used[copied[i]] = true
	}
	for _, dir := range copied {
		require.True(t, used[dir], "the Dockerfile copies %s, of which cmd/globalfs links nothing", dir)
	}
	ignored, err := os.ReadFile("../../.dockerignore")
	require.NoError(t, err)
	for _, dir := range []string{"bench", "test", "cmd/globalfs-lab"} {
		require.Contains(t, strings.Split(string(ignored), "\n"), dir, ".dockerignore keeps the laboratory out of the build")
	}
}

// copiedIntoTheImage lists the source directories that the Dockerfile copies.
func copiedIntoTheImage(t *testing.T) (dirs []string) {
	dockerfile, err := os.ReadFile("../../Dockerfile")
	require.NoError(t, err)
	for line := range strings.Lines(string(dockerfile)) {
		if words := strings.Fields(line); len(words) == 3 && words[0] == "COPY" && words[1] == words[2] {
			dirs = append(dirs, words[1])
		}
	}
	require.NotEmpty(t, dirs)
	return dirs
}
