package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/bench"
	"github.com/globalfs/globalfs/internal/command"
)

// Every operation is measured in each condition by the specified clients. The saved results equal the printed
// ones.
func TestBenchRegions(t *testing.T) {
	var out, err bytes.Buffer
	dir := t.TempDir()
	code := Main([]string{
		"bench", "regions", "--regions-counts", "1,2", "--duration", "50ms", "--slice", "10ms", "--cycles", "1", "-o", "json", "--out", dir,
	}, &out, &err)
	require.Equal(t, command.ExitOK, code, err.String())
	var rows []bench.RegionsRow
	require.NoError(t, json.Unmarshal(out.Bytes(), &rows))
	count := map[string]int{}
	for _, r := range rows {
		require.Positive(t, r.Operations, "%+v", r)
		require.Positive(t, r.P50, "%+v", r)
		require.Equal(t, r.Condition != "alone", r.Ratio50 > 0, "%+v", r)
		count[r.Place]++
	}
	require.Equal(t, map[string]int{"local": 4 + 4*4, "global": 4 + 2*4, "two partitions": 3 + 2*3}, count)
	saved, readErr := os.ReadFile(filepath.Join(dir, "regions.json"))
	require.NoError(t, readErr)
	require.Equal(t, out.String(), string(saved))
	require.FileExists(t, filepath.Join(dir, "regions.txt"))
}

// The progress names each measurement once.
func TestBenchRegionsProgress(t *testing.T) {
	f := regionsFlags{counts: []int{1}, duration: 20 * time.Millisecond, slice: 5 * time.Millisecond, cycles: 2}
	var seen []string
	rows, err := f.measureAll(t.Context(), t.TempDir(), slog.New(slog.DiscardHandler), func(step string) { seen = append(seen, step) })
	require.NoError(t, err)
	want := []string{"1 regions: local operations, alone (1 of 2)", "1 regions: local operations, alone (2 of 2)"}
	for _, r := range rows {
		if r.Place != "local" {
			want = append(want, fmt.Sprintf("1 regions: %s, %s, from us-west-2", r.Operation, r.Place))
		}
	}
	require.Greater(t, len(want), 2)
	require.Equal(t, want, seen)
}

func TestBenchRegionsInput(t *testing.T) {
	for _, args := range [][]string{
		{"--regions-counts", "10"}, {"--regions-counts", "0"}, {"--duration", "0s"}, {"--slice", "-1s"}, {"--cycles", "0"}, {"-o", "xml"},
	} {
		var out, err bytes.Buffer
		code := Main(append([]string{"bench", "regions"}, args...), &out, &err)
		require.Equal(t, command.ExitInput, code, "%v: %s", args, err.String())
		require.Contains(t, err.String(), ": give ")
	}
}
