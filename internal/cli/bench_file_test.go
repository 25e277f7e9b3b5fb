package cli

import (
	"bytes"
	"encoding/json"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/bench"
	"github.com/globalfs/globalfs/internal/command"
)

// All measures exist for all file systems. Written bytes count once for each stored copy. No mounts and no
// files are left.
func TestBenchFile(t *testing.T) {
	if _, err := os.Stat("/dev/fuse"); err != nil || os.Geteuid() != 0 {
		t.Skipf("a mount needs root and /dev/fuse: %v", err)
	}
	var out, err bytes.Buffer
	work := t.TempDir()
	code := Main([]string{
		"bench", "file", "--size", "16777216", "--small", "100,65536", "--duration", "50ms", "--rounds", "1",
		"--durability", "os,sync", "--data-dir", work, "-o", "json",
	}, &out, &err)
	require.Equal(t, command.ExitOK, code, err.String())
	var rows []bench.FileRow
	require.NoError(t, json.Unmarshal(out.Bytes(), &rows))
	require.Len(t, rows, 2*(5+2))
	for _, row := range rows {
		require.GreaterOrEqual(t, len(row.Rates), 3, "%+v", row)
		require.Equal(t, "globalfs", row.Rates[0].Name)
		for i, r := range row.Rates {
			require.Positive(t, r.PerSecond, "%+v", row)
			require.Equal(t, i > 0, r.Ratio > 0, "%+v", row)
		}
		if row.Measure == "write" {
			require.InDelta(t, 3, row.Rates[0].Written, 0.5)
			require.InDelta(t, 1, row.Rates[1].Written, 0.5)
		}
	}
	left, readErr := os.ReadDir(work)
	require.NoError(t, readErr)
	require.Empty(t, left)
}

func TestBenchFileInput(t *testing.T) {
	for _, args := range [][]string{
		{"--size", "0"}, {"--size", "1048577"}, {"--small", "-1"}, {"--copies", "4"}, {"--copies", "0"}, {"--duration", "0s"},
		{"--rounds", "0"}, {"--transport", "rdma"}, {"--durability", "memory"}, {"-o", "xml"},
	} {
		var out, err bytes.Buffer
		code := Main(append([]string{"bench", "file"}, args...), &out, &err)
		require.Equal(t, command.ExitInput, code, "%v: %s", args, err.String())
		require.Contains(t, err.String(), ": give ")
	}
}
