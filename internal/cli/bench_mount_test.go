package cli

import (
	"bytes"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/command"
)

func TestBenchMountOfPlainDirectories(t *testing.T) {
	var out, err bytes.Buffer
	dir, results := t.TempDir(), t.TempDir()
	code := Main([]string{
		"bench", "mount", "--rounds", "1", "--files", "5", "--size", "1M", "--clients", "1,2", "--pid", "here=" + "1," + "1", "--out", results,
		"--measures", "create,write-1m", "here=" + dir, "there=" + dir,
	}, &out, &err)
	require.Equal(t, command.ExitOK, code, err.String())
	for _, want := range []string{"create", "write-1m", "here", "there", "CPU by process"} {
		require.Contains(t, out.String(), want)
	}
	left, readErr := os.ReadDir(dir)
	require.NoError(t, readErr)
	require.Empty(t, left)
	for _, name := range []string{"mount.txt", "mount.json"} {
		require.FileExists(t, filepath.Join(results, name))
	}
}

// Paths of --tar and --configure may be relative: the programs run in other directories.
func TestBenchMountOfRelativePaths(t *testing.T) {
	t.Chdir(t.TempDir())
	dir := t.TempDir()
	require.NoError(t, os.Mkdir("sources", 0o755))
	require.NoError(t, os.WriteFile("sources/configure", []byte("#!/bin/sh\n"), 0o755))
	require.NoError(t, exec.Command("tar", "-cf", "archive.tar", "sources").Run())
	var out, err bytes.Buffer
	code := Main([]string{"bench", "mount", "--rounds", "1", "--tar", "archive.tar", "--configure", "sources", "--measures", "untar,configure", dir}, &out, &err)
	require.Equal(t, command.ExitOK, code, err.String())
}

func TestBenchMountInput(t *testing.T) {
	dir := t.TempDir()
	for _, args := range [][]string{
		{dir, "--rounds", "0"}, {dir, "--measures", "fly"}, {dir, "-o", "xml"}, {dir, "--pid", "elsewhere=1"}, {"a=" + dir, "--pid", "a=one"},
		{dir, "--second", "elsewhere=" + dir}, {"a=" + dir, "--second", "a="}, {dir + "/missing"}, {dir, dir}, {dir, "--loopback", dir + "/missing"}, {dir, "--tar", dir + "/missing"}, {dir, "--configure", dir},
	} {
		var out, err bytes.Buffer
		code := Main(append([]string{"bench", "mount"}, args...), &out, &err)
		require.Equal(t, command.ExitInput, code, "%v: %s", args, err.String())
		require.Contains(t, err.String(), ": give ")
	}
	var out, err bytes.Buffer
	require.Equal(t, command.ExitUsage, Main([]string{"bench", "mount"}, &out, &err))
}

// listener finds the processes of a cluster by the addresses at which they listen.
func TestListener(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := l.Addr().String()
	require.Equal(t, os.Getpid(), listener(address))
	require.NoError(t, l.Close())
	require.Zero(t, listener(address))
	for _, wrong := range []string{"", "127.0.0.1", "127.0.0.1:http", "192.0.2.1:80"} {
		require.Zero(t, listener(wrong), wrong)
	}
}

func TestBenchProgress(t *testing.T) {
	var out bytes.Buffer
	benchProgress(&out, time.Hour)("too early")
	require.Empty(t, out.String())
	benchProgress(&out, 0)("round 1")
	require.Equal(t, "round 1\n", out.String())
}
