package posix

import (
	"os"
	"os/exec"
	"path/filepath"
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
