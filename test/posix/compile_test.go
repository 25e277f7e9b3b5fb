package posix

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// sources are the files of a C program. Its output depends on all of them.
var sources = map[string]string{
	"sum.h": "int sum(const int *v, int n);\n",
	"sum.c": "#include \"sum.h\"\nint sum(const int *v, int n) { int s = 0; while (n--) s += v[n]; return s; }\n",
	"main.c": `#include <stdio.h>
#include "sum.h"
int main(void) { int v[] = {40, 1, 1}; printf("%d\n", sum(v, 3)); return 0; }
`,
}

// buildProject makes a program of many files with make, and runs it. Then it changes one file: make compiles
// only that one again.
func buildProject(t *testing.T, dir string, files int) {
	for _, tool := range []string{"cc", "make"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("no %s: deploy/deps.sh test installs gcc and make", tool)
		}
	}
	write := func(name, format string, args ...any) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), fmt.Appendf(nil, format, args...), 0o644))
	}
	var objects, declarations, calls strings.Builder
	for i := range files {
		fmt.Fprintf(&objects, " part%d.o", i)
		fmt.Fprintf(&declarations, "int part%d(int);\n", i)
		fmt.Fprintf(&calls, " sum = part%d(sum);", i)
		write(fmt.Sprintf("part%d.c", i), "#include \"parts.h\"\nint part%d(int sum) { return sum + %d; }\n", i, i)
	}
	write("parts.h", "%s", declarations.String())
	write("main.c", "#include <stdio.h>\n#include \"parts.h\"\nint main(void) { int sum = 0;%s printf(\"%%d\\n\", sum); return 0; }\n", calls.String())
	write("Makefile", "prog: main.o%[1]s\n\tcc -o $@ $^\nmain.o%[1]s: parts.h\n", objects.String())
	build := func() string {
		out, err := command(t, dir, "make")
		require.NoError(t, err, "%s", out)
		return out
	}
	require.Equal(t, files+1, strings.Count(build(), " -c "))
	out, err := command(t, dir, "./prog")
	require.NoError(t, err)
	require.Equal(t, fmt.Sprintln(files*(files-1)/2), out)
	require.NotContains(t, build(), " -c ", "nothing has changed")
	write("part0.c", "#include \"parts.h\"\nint part0(int sum) { return sum + 1000; }\n")
	require.Equal(t, 1, strings.Count(build(), " -c "))
	out, err = command(t, dir, "./prog")
	require.NoError(t, err)
	require.Equal(t, fmt.Sprintln(files*(files-1)/2+1000), out)
}

// TestCompile compiles, archives, links and runs a program, all on the mount.
func TestCompile(t *testing.T) {
	for _, tool := range []string{"cc", "ar"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("no %s: deploy/deps.sh test installs gcc", tool)
		}
	}
	c := startCluster(t)
	partitions(t, c, func(t *testing.T, dir string) {
		for name, text := range sources {
			require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
		}
		for _, line := range [][]string{
			{"cc", "-pipe", "-g", "-c", "sum.c", "main.c"},
			{"ar", "rcs", "libsum.a", "sum.o"},
			{"cc", "-o", "prog", "main.o", "-L.", "-lsum"},
		} {
			out, err := command(t, dir, line[0], line[1:]...)
			require.NoError(t, err, "%v: %s", line, out)
		}
		out, err := command(t, dir, "./prog")
		require.NoError(t, err)
		require.Equal(t, "42\n", out)
	})
}
