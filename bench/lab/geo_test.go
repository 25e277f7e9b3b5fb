package lab

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/bench/geo"
	"github.com/globalfs/globalfs/internal/command"
	"github.com/globalfs/globalfs/test/cluster"
)

// Every operation is measured in all settings of this machine, and profiled in all processes. No mounts,
// files or processes are left.
func TestGeo(t *testing.T) {
	if _, err := os.Stat("/dev/fuse"); err != nil || os.Geteuid() != 0 {
		t.Skipf("a mount needs root and /dev/fuse: %v", err)
	}
	if _, err := cluster.FindEtcd(); err != nil {
		t.Skipf("no etcd: deploy/deps.sh test fetches it (%v)", err)
	}
	t.Setenv(asProgram, "1")
	work, saved, profiles := t.TempDir(), t.TempDir(), t.TempDir()
	var out, said bytes.Buffer
	code := Main([]string{
		"geo", "--globalfs", program(t), "--settings", "embedded,loopback,lab", "--clients", "2", "--duration", "30ms", "--rounds", "1", "--data-dir", work,
		"--profile", profiles, "--out", saved, "-o", "json",
	}, &out, &said)
	require.Equal(t, command.ExitOK, code, said.String())
	var report geo.Report
	require.NoError(t, json.Unmarshal(out.Bytes(), &report))
	posts := map[string]int{"embedded": 1, "loopback": 1, "lab": 3}
	processes := map[string]int{"embedded": 1, "loopback": 4, "lab": 4}
	if reason, ok := report.Skipped["lab"]; ok {
		require.Contains(t, said.String(), "not measured: lab: "+reason)
		delete(posts, "lab")
	} else {
		require.Positive(t, report.Late)
	}
	rows, costs := map[string]int{}, map[string]int{}
	for _, r := range report.Rows {
		require.Positive(t, r.P50, "%+v", r)
		require.Positive(t, r.Latency, "%+v", r)
		if r.Setting == "lab" && r.Place == "global" && !strings.HasPrefix(r.Operation, "read") {
			require.Greater(t, r.P50, 70e3, "%+v is faster than light", r)
		}
		rows[r.Setting]++
	}
	for _, c := range report.Costs {
		require.Positive(t, c.Creates, "%+v", c)
		costs[c.Setting]++
	}
	for setting, n := range posts {
		require.Equal(t, 5*2*n, rows[setting], setting)
		require.Equal(t, 2*processes[setting], costs[setting], setting)
	}
	left, err := os.ReadDir(work)
	require.NoError(t, err)
	require.Empty(t, left)
	mounts, err := os.ReadFile("/proc/mounts")
	require.NoError(t, err)
	require.NotContains(t, string(mounts), work)
	for _, name := range []string{"geo.json", "geo.txt", "geo-create-local.svg", "geo-create-global.svg"} {
		require.FileExists(t, filepath.Join(saved, name))
	}
	taken, err := os.ReadDir(profiles)
	require.NoError(t, err)
	require.Len(t, taken, len(report.Costs))
}

func TestGeoInput(t *testing.T) {
	for _, args := range [][]string{
		{"--settings", "moon"}, {"--settings", ""}, {"--regions", ""}, {"--datacenters", "0"}, {"--clients", "0"}, {"--duration", "0s"}, {"--rounds", "0"},
		{"-o", "xml"},
	} {
		var out, err bytes.Buffer
		code := Main(append([]string{"geo"}, args...), &out, &err)
		require.Equal(t, command.ExitInput, code, "%v: %s", args, err.String())
		require.Contains(t, err.String(), ": give ")
	}
}

// The program is the given one, or the one beside the laboratory, or the one in PATH.
func TestFindProgram(t *testing.T) {
	dir, path := t.TempDir(), t.TempDir()
	t.Setenv("PATH", path)
	make := func(dir string) string {
		name := filepath.Join(dir, "globalfs")
		require.NoError(t, os.WriteFile(name, []byte("#!/bin/sh\n"), 0o755))
		return name
	}
	_, err := findProgram("", dir)
	require.Equal(t, command.ExitInput, command.ExitCode(err))
	require.ErrorContains(t, err, "make build")
	inPath := make(path)
	found, err := findProgram("", dir)
	require.NoError(t, err)
	require.Equal(t, inPath, found)
	beside := make(dir)
	found, err = findProgram("", dir)
	require.NoError(t, err)
	require.Equal(t, beside, found)
	found, err = findProgram(inPath, dir)
	require.NoError(t, err)
	require.Equal(t, inPath, found)
	_, err = findProgram(filepath.Join(dir, "none"), dir)
	require.ErrorContains(t, err, "--globalfs PATH")
}
