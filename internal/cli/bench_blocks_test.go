package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/bench"
	"github.com/globalfs/globalfs/internal/command"
	"github.com/globalfs/globalfs/internal/progress"
)

// Each size is measured with each number of copies. All copies are on the disks, and no files are left there.
func TestBenchBlocks(t *testing.T) {
	for _, transport := range []string{"inprocess", "grpc"} {
		var out, err bytes.Buffer
		work, results := t.TempDir(), t.TempDir()
		code := Main([]string{
			"bench", "blocks", "--sizes", "1024,32768", "--copies", "2,3", "--clients", "2", "--duration", "60ms", "--rounds", "2",
			"--transport", transport, "--durability", "os,sync", "--data-dir", work, "-o", "json", "--out", results,
		}, &out, &err)
		require.Equal(t, command.ExitOK, code, err.String())
		var rows []bench.BlocksRow
		require.NoError(t, json.Unmarshal(out.Bytes(), &rows))
		require.Len(t, rows, 2*2*2*2)
		for _, r := range rows {
			require.Equal(t, transport, r.Transport)
			require.Positive(t, r.Ratio, "%+v", r)
			require.Equal(t, r.Operation == "put" && r.Size == 1024 && r.Copies == 2, r.Thesis == 8000, "%+v", r)
			if r.Operation == "put" {
				require.GreaterOrEqual(t, r.Blocks.Written, float64(r.Size*r.Copies), "%+v", r)
				require.GreaterOrEqual(t, r.Plain.Written, float64(r.Size*r.Copies), "%+v", r)
			}
		}
		left, readErr := os.ReadDir(work)
		require.NoError(t, readErr)
		require.Empty(t, left)
		saved, readErr := os.ReadFile(filepath.Join(results, "blocks.json"))
		require.NoError(t, readErr)
		require.Equal(t, out.String(), string(saved))
		require.FileExists(t, filepath.Join(results, "blocks.txt"))
	}
}

// The progress counts each round of each size, number of copies and durability, and nothing else.
func TestBenchBlocksProgress(t *testing.T) {
	f := blocksFlags{
		config:    bench.BlocksConfig{Sizes: []int{1024, 2048}, Copies: []int{2}, Clients: 1, Duration: 20 * time.Millisecond, Rounds: 2},
		transport: "inprocess", durability: []string{"os", "sync"},
	}
	meter := new(progress.Meter)
	count := steps(meter, f.steps())
	var seen []progress.State
	rows, err := f.measure(t.Context(), t.TempDir(), func(step string) {
		count(step)
		seen = append(seen, meter.State())
	})
	require.NoError(t, err)
	require.Len(t, rows, 2*2*2)
	var want []progress.State
	for _, durability := range f.durability {
		for _, size := range f.config.Sizes {
			for round := range 2 {
				want = append(want, progress.State{
					Doing: fmt.Sprintf("%s: %d bytes, 2 copies: puts and gets (%d of 2)", durability, size, round+1),
					Unit:  "steps", Done: uint64(len(want)), Total: 8,
				})
			}
		}
	}
	require.Equal(t, want, seen)
}

func TestBenchBlocksInput(t *testing.T) {
	for _, args := range [][]string{
		{"--sizes", "0"}, {"--sizes", "1048577"}, {"--copies", "6"}, {"--copies", "0"}, {"--clients", "0"}, {"--duration", "0s"},
		{"--rounds", "0"}, {"--transport", "rdma"}, {"--durability", "memory"}, {"-o", "xml"},
	} {
		var out, err bytes.Buffer
		code := Main(append([]string{"bench", "blocks"}, args...), &out, &err)
		require.Equal(t, command.ExitInput, code, "%v: %s", args, err.String())
		require.Contains(t, err.String(), ": give ")
	}
}
