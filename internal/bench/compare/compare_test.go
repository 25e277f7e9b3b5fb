package compare

import (
	"archive/tar"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// small returns a configuration that takes little time.
func small(t *testing.T, names ...string) Config {
	cfg := Config{Clients: []int{1, 3}, Rounds: 2, Files: 12, Size: 3 * piece, Limit: time.Minute, Progress: func(string) {}, Settle: func() {}}
	for _, name := range names {
		cfg.Directories = append(cfg.Directories, Directory{Name: name, Path: t.TempDir()})
	}
	return cfg
}

func requireEmpty(t *testing.T, cfg *Config) {
	t.Helper()
	for _, d := range cfg.Directories {
		left, err := os.ReadDir(d.Path)
		require.NoError(t, err)
		require.Empty(t, left)
	}
}

// writeArchive makes an archive with files in two directories, of which it lists one.
func writeArchive(t *testing.T) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "archive.tar")
	f, err := os.Create(name)
	require.NoError(t, err)
	w := tar.NewWriter(f)
	require.NoError(t, w.WriteHeader(&tar.Header{Name: "listed/", Typeflag: tar.TypeDir, Mode: 0o755}))
	for _, file := range []string{"listed/file", "implied/below/file"} {
		require.NoError(t, w.WriteHeader(&tar.Header{Name: file, Typeflag: tar.TypeReg, Mode: 0o644, Size: 4}))
		_, err := w.Write([]byte("text"))
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	require.NoError(t, f.Close())
	return name
}

func writeSources(t *testing.T, configure string) string {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "configure"), []byte("#!/bin/sh\n"+configure), 0o755))
	return dir
}

// All measures run in all directories, with all numbers of clients, and nothing is left.
func TestRun(t *testing.T) {
	cfg := small(t, "one", "two")
	cfg.Tar = writeArchive(t)
	cfg.Sources = writeSources(t, "mkdir made && printf 'all:\\n\\techo x >made/x\\n' >Makefile")
	cfg.Directories[1].Second = cfg.Directories[1].Path
	cfg.Directories[1].Processes = []Process{{"this", os.Getpid()}}
	read := uint64(0)
	cfg.Directories[1].Counters = func(context.Context) (Counters, error) {
		read++
		return Counters{Requests: 100 * read, Commands: 10 * read}, nil
	}
	cfg.Measures = cfg.DefaultMeasures()
	require.Equal(t, MeasureNames(), cfg.Measures)
	if _, err := exec.LookPath("make"); err != nil {
		cfg.Measures = cfg.Measures[:len(cfg.Measures)-1]
	}
	rows, err := Run(t.Context(), cfg)
	require.NoError(t, err)
	requireEmpty(t, &cfg)
	want := 0
	for _, name := range cfg.Measures {
		want += 2 * 2
		if name == "untar" || name == "rm-rf" || name == "configure" || name == "make" {
			want -= 2
		}
		if strings.HasPrefix(name, "seen-") {
			want -= 2
		}
	}
	require.Len(t, rows, want)
	for _, r := range rows {
		steps := map[string]int{"readdir": 10 * r.Clients, "write-1m": 3, "read-1m": 3, "untar": 1, "rm-rf": 1, "configure": 1, "make": 1}[r.Measure]
		if steps == 0 {
			steps = 12
		}
		require.Equal(t, 2*steps, r.Operations, "%+v", r)
		require.Positive(t, r.PerSecond)
		require.Positive(t, r.P50)
		require.LessOrEqual(t, r.P50, r.P90)
		require.LessOrEqual(t, r.P90, r.P99)
		require.LessOrEqual(t, r.P99, r.Max)
		require.Greater(t, r.Seconds, r.Barrier)
		if r.Directory == "one" {
			require.Equal(t, 1.0, r.Ratio)
			require.Nil(t, r.Commands)
			require.Empty(t, r.CPU)
			continue
		}
		require.Equal(t, "two", r.Directory)
		require.Equal(t, !strings.HasPrefix(r.Measure, "seen-"), r.Ratio > 0)
		require.InDelta(t, 2*10/float64(r.Operations), *r.Commands, 1e-9)
		require.InDelta(t, 2*100/float64(r.Operations), *r.Requests, 1e-9)
		require.Zero(t, *r.Queries)
		require.Equal(t, os.Getpid(), r.CPU[0].PID)
		require.Positive(t, r.TotalCPU())
	}
}

// A measure that needs the files of another measure creates them itself if the other one did not run.
func TestMeasuresAlone(t *testing.T) {
	for _, name := range []string{"stat", "readdir", "rename", "unlink", "read-1m", "random-write-4k", "random-read-4k", "rm-rf"} {
		cfg := small(t, "one")
		cfg.Tar = writeArchive(t)
		cfg.Measures = []string{name}
		rows, err := Run(t.Context(), cfg)
		require.NoError(t, err, name)
		require.NotEmpty(t, rows)
		requireEmpty(t, &cfg)
	}
}

// The limit ends a measure, not the run: later measures complete the files that they need.
func TestLimit(t *testing.T) {
	cfg := small(t, "one")
	cfg.Limit = 1
	rows, err := Run(t.Context(), cfg)
	require.NoError(t, err)
	for _, r := range rows {
		require.Equal(t, 2*r.Clients, r.Operations, "%+v", r)
	}
	requireEmpty(t, &cfg)
}

// Wherever a run is interrupted, nothing is left.
func TestInterruptedRunLeavesNothing(t *testing.T) {
	for stop := 1; ; stop++ {
		cfg := small(t, "one")
		cfg.Rounds, cfg.Clients, cfg.Files, cfg.Tar = 1, []int{2}, 2, writeArchive(t)
		ctx, cancel := context.WithCancel(t.Context())
		steps := 0
		cfg.Progress = func(string) {
			if steps++; steps == stop {
				cancel()
			}
		}
		_, err := Run(ctx, cfg)
		requireEmpty(t, &cfg)
		if steps < stop {
			require.NoError(t, err)
			cancel()
			return
		}
		require.ErrorIs(t, err, context.Canceled)
	}
}

// A program and its children end with the run.
func TestInterruptedProgram(t *testing.T) {
	cfg := small(t, "one")
	started := filepath.Join(t.TempDir(), "started")
	cfg.Sources, cfg.Measures = writeSources(t, "(touch "+started+"; while true; do sleep 1; echo >>f; done) & wait"), []string{"configure"}
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		defer cancel()
		for tick := time.Tick(time.Millisecond); ; <-tick {
			if _, err := os.Stat(started); err == nil {
				return
			}
		}
	}()
	_, err := Run(ctx, cfg)
	require.ErrorIs(t, err, context.Canceled)
	requireEmpty(t, &cfg)
}

func TestFailedProgram(t *testing.T) {
	cfg := small(t, "one")
	cfg.Sources, cfg.Measures = writeSources(t, "echo no compiler; exit 3"), []string{"make"}
	_, err := Run(t.Context(), cfg)
	require.ErrorContains(t, err, "make in one: ./configure: exit status 3; the end of its output:\nno compiler")
	requireEmpty(t, &cfg)
}

// A full file system ends the run with the remedy, and is as empty afterwards as before.
func TestNoSpace(t *testing.T) {
	cfg := small(t, "disk", "full")
	full := cfg.Directories[1].Path
	if err := syscall.Mount("tmpfs", full, "tmpfs", 0, "size=1m"); err != nil {
		t.Skipf("a small file system needs root: %v", err)
	}
	defer func() { require.NoError(t, syscall.Unmount(full, 0)) }()
	_, err := Run(t.Context(), cfg)
	require.ErrorIs(t, err, syscall.ENOSPC)
	require.ErrorContains(t, err, "write-1m in full: ")
	require.ErrorContains(t, err, ": make room, or lower --size and --files")
	requireEmpty(t, &cfg)
}

func TestValidate(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o644))
	for want, change := range map[string]func(c *Config){
		"no directory: give at least one":             func(c *Config) { c.Directories = nil },
		"not a directory: give a directory":           func(c *Config) { c.Directories[0].Path = file },
		"give an existing directory":                  func(c *Config) { c.Directories[0].Path += "/missing" },
		"given twice: give NAME=DIR":                  func(c *Config) { c.Directories = append(c.Directories, c.Directories[0]) },
		"--rounds 0: give at least 1":                 func(c *Config) { c.Rounds = 0 },
		"--files 0: give at least 1":                  func(c *Config) { c.Files = 0 },
		"--size 1048577: give a multiple":             func(c *Config) { c.Size = piece + 1 },
		"--limit 0s: give a positive":                 func(c *Config) { c.Limit = 0 },
		"--clients: give at least one":                func(c *Config) { c.Clients = nil },
		"--clients 0: give 1 to 1024":                 func(c *Config) { c.Clients = []int{0} },
		`--measures "fly": give some of create, stat`: func(c *Config) { c.Measures = []string{"fly"} },
		`--measures "untar": give --tar as well`:      func(c *Config) { c.Measures = []string{"untar"} },
		`--measures "seen-write": give --second as`:   func(c *Config) { c.Measures = []string{"seen-write"} },
		`--measures "make": give --configure as`:      func(c *Config) { c.Measures = []string{"make"} },
		"give an archive for tar(1)":                  func(c *Config) { c.Tar = file + "/missing" },
		"give a directory with a configure script":    func(c *Config) { c.Sources = filepath.Dir(file) },
	} {
		cfg := small(t, "one")
		change(&cfg)
		_, err := Run(t.Context(), cfg)
		require.ErrorContains(t, err, want)
	}
}

// A process that has ended is named.
func TestEndedProcess(t *testing.T) {
	cmd := exec.Command("true")
	require.NoError(t, cmd.Run())
	cfg := small(t, "one")
	cfg.Directories[0].Processes = []Process{{"server", cmd.Process.Pid}}
	_, err := Run(t.Context(), cfg)
	require.ErrorContains(t, err, "CPU time of server: ")
	requireEmpty(t, &cfg)
}

func TestDirectoriesOf(t *testing.T) {
	require.Equal(t, ". a a/b c/d c", strings.Join(directoriesOf([]string{"a/", "a/b/", "a/b/f", "c/d/f", "./g"}), " "))
}
