package posix

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

var (
	fsxOps  = flag.Int("posix.ops", 5000, "operations of each fsx run; a soak has 100,000")
	fsxSeed = flag.Int("posix.seed", 1, "seed of the fsx runs")
)

// Weights of fsx's operations. Those on mapped memory take another way through the kernel.
const (
	fsxPlain = `
[weights]
close_open = 1
read = 10
write = 10
mapread = 0
mapwrite = 0
truncate = 2
fsync = 1
fdatasync = 1
posix_fallocate = 1
punch_hole = 1
sendfile = 1
posix_fadvise = 1
copy_file_range = 2
`
	fsxMapped = `
[weights]
close_open = 1
invalidate = 1
read = 5
write = 5
mapread = 10
mapwrite = 10
truncate = 2
fsync = 1
punch_hole = 1
`
)

// TestFsx changes a file at random and compares each read with what must be there.
func TestFsx(t *testing.T) {
	program := tester(t, "fsx")
	c := startCluster(t)
	for name, weights := range map[string]string{"plain": fsxPlain, "mapped": fsxMapped} {
		config := filepath.Join(t.TempDir(), "fsx.toml")
		require.NoError(t, os.WriteFile(config, []byte(weights), 0o644))
		t.Run(name, func(t *testing.T) {
			partitions(t, c, func(t *testing.T, dir string) {
				out, err := command(t, dir, program, "-f", config, "-N", fmt.Sprint(*fsxOps), "-S", fmt.Sprint(*fsxSeed),
					"-P", t.TempDir(), filepath.Join(dir, "file"))
				require.NoError(t, err, "%s", lastLines(out, 40))
			})
		})
	}
}
