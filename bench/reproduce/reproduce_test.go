package reproduce

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestQuick runs all papers, and checks shapes: exactly the findings below differ, for the reasons that the
// report gives.
func TestQuick(t *testing.T) {
	dir := t.TempDir()
	o := Options{Quick: true, Dir: dir, Version: "test", Progress: func(string) {}}
	r, err := Run(t.Context(), o)
	require.NoError(t, err)
	require.Len(t, r.Parts, len(papers()))
	var differ []string
	for _, p := range r.Parts {
		require.NotEmpty(t, p.Findings)
		for _, f := range p.Findings {
			if f.Verdict != Confirmed {
				differ = append(differ, p.Name+": "+f.Item)
				require.NotEmpty(t, f.Why, "%s, %s: %s", p.Name, f.Item, f.Ours)
			}
		}
	}
	require.Equal(t, []string{
		"globalfs: Figure 3.4, global reads", "primcast: Figure 4.2, throughput", "primcast: Figure 4.5, median", "tram: Figure 9, message passing", "tram: Figures 6 to 8, breadth",
		"heron: Figure 6, coordination", "heron: Table I, share", "heron: File system without RDMA",
		"batching: Figure 7, 128 bytes", "batching: Figures 7 and 8, collapse", "packing: Figure 1, long bursts",
	}, differ)
	for _, name := range []string{"report.md", "index.html"} {
		b, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		require.Contains(t, string(b), "Heron")
	}
	var measured []string
	o.Progress = func(what string) { measured = append(measured, what) }
	again, err := Run(t.Context(), o)
	require.NoError(t, err)
	require.Equal(t, r.Parts, again.Parts, "all parts are kept")
	for _, what := range measured {
		require.True(t, strings.HasSuffix(what, "kept from an earlier run"), what)
	}
}

// TestInterrupted: the report has the papers that have ended.
func TestInterrupted(t *testing.T) {
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	o := Options{Quick: true, Dir: dir, Version: "test", Papers: []string{"heron", "batching"}}
	o.Progress = func(what string) {
		if strings.HasPrefix(what, "batching") {
			cancel()
		}
	}
	r, err := Run(ctx, o)
	require.ErrorIs(t, err, context.Canceled)
	require.Len(t, r.Parts, 1)
	require.FileExists(t, filepath.Join(dir, "report.md"))
}

// TestOptions: a wrong option is named.
func TestOptions(t *testing.T) {
	require.ErrorContains(t, (&Options{Dir: "x", Papers: []string{"paxos"}}).Validate(), "globalfs, primcast, tram, heron, batching, packing")
	require.Error(t, (&Options{}).Validate())
	require.ErrorContains(t, (&Options{Dir: "x", Compiled: []string{"gcc=x"}}).Validate(), "give bc=FILE or httpd=FILE")
	_, err := readPart(filepath.Join("testdata", "none.json"))
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "findings.json")
	require.NoError(t, os.WriteFile(file, []byte("{"), 0o600))
	_, err = readPart(file)
	require.ErrorContains(t, err, "delete the file")
}

// TestCompilations: a measurement on processes gives a finding for each program.
func TestCompilations(t *testing.T) {
	file := filepath.Join(t.TempDir(), "mount.json")
	rows := `[{"measure": "make", "directory": "loopback", "seconds": 10}, {"measure": "make", "directory": "globalfs", "seconds": 12},
		{"measure": "make", "directory": "disk", "seconds": 6}, {"measure": "untar", "directory": "loopback", "seconds": 1},
		{"measure": "untar", "directory": "globalfs", "seconds": 3}, {"measure": "untar", "directory": "disk", "seconds": 1}]`
	require.NoError(t, os.WriteFile(file, []byte(rows), 0o600))
	j := &job{Options: &Options{Compiled: []string{"bc=" + file}}, part: &Part{}}
	require.NoError(t, j.compilations())
	require.Len(t, j.part.Findings, 2)
	require.Equal(t, Differs, j.part.Findings[0].Verdict)
	require.NotEmpty(t, j.part.Findings[0].Why)
	require.Equal(t, Confirmed, j.part.Findings[1].Verdict)
	require.Contains(t, j.part.Findings[1].Ours, "1.20 times loopback FUSE, 2.00 times the local disk")
}
