package posix

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

var (
	fsxOps  = flag.Int("posix.ops", 5000, "operations of each fsx run; a soak has 100,000")
	fsxSeed = flag.Int("posix.seed", 1, "seed of the fsx runs")
)

// Weights of fsx's operations. Operations on mapped memory use another path through the kernel.
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

// TestFsx changes a file at random and compares each read with the expected content.
func TestFsx(t *testing.T) {
	c := startCluster(t)
	for name, weights := range map[string]string{"plain": fsxPlain, "mapped": fsxMapped} {
		t.Run(name, func(t *testing.T) {
			partitions(t, c, func(t *testing.T, dir string) {
				file := filepath.Join(dir, "file")
				if strings.HasSuffix(t.Name(), "/spread") {
					file = foreignFile(t, dir)
				}
				fsx(t, weights, file)
			})
		})
	}
}

// TestFsxMoves: a program that uses a file does not notice that the file and its directory move between
// partitions.
func TestFsxMoves(t *testing.T) {
	c := startCluster(t)
	for name, weights := range map[string]string{"plain": fsxPlain, "mapped": fsxMapped} {
		t.Run(name, func(t *testing.T) {
			dir := c.in(near, "moves-"+name)
			require.NoError(t, os.Mkdir(dir, 0o755))
			file := filepath.Join(dir, "file")
			require.NoError(t, os.WriteFile(file, nil, 0o644))
			ended := make(chan struct{})
			over := make(chan struct{})
			var moves atomic.Int64
			go func() { defer close(over); moveAround(t, dir, file, &moves, ended) }()
			stop := sync.OnceFunc(func() { close(ended); <-over })
			defer stop()                                                          // also when fsx fails
			for run := 0; run == 0 || run < maxRuns && moves.Load() == 0; run++ { // the mover looks for work every few seconds
				fsx(t, weights, file)
			}
			stop()
			t.Logf("moved %d times", moves.Load())
			require.Positive(t, moves.Load())
		})
	}
}

// maxRuns is the maximum number of runs of fsx until the file has moved during one.
const maxRuns = 10

// moveAround moves a directory between regions until done, and counts the completed moves of the file in it.
func moveAround(t *testing.T, dir, file string, moves *atomic.Int64, done <-chan struct{}) {
	regions := []string{near, "global", far}
	for i := 0; ; i++ {
		target := regions[i%len(regions)]
		if !assert.NoError(t, unix.Setxattr(dir, "globalfs.region", []byte(target), 0)) {
			return
		}
		for there := false; !there; {
			select {
			case <-done:
				return
			case <-time.After(look):
			}
			region, err := readRegion(file)
			if !assert.NoError(t, err) {
				return
			}
			there = region == target
		}
		moves.Add(1)
	}
}

// fsx runs fsx on a file.
func fsx(t *testing.T, weights, file string) {
	t.Helper()
	config := filepath.Join(t.TempDir(), "fsx.toml")
	require.NoError(t, os.WriteFile(config, []byte(weights), 0o644))
	out, err := command(t, filepath.Dir(file), tester(t, "fsx"), "-f", config, "-N", fmt.Sprint(*fsxOps), "-S", fmt.Sprint(*fsxSeed),
		"-P", t.TempDir(), file)
	require.NoError(t, err, "%s", lastLines(out, 40))
}
