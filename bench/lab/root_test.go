package lab

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/cli"
	"github.com/globalfs/globalfs/internal/command"
)

// asProgram is the environment variable that makes this test binary act as both programs: as the laboratory
// for its commands, otherwise as globalfs.
const asProgram = "GLOBALFS_TEST_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) == "" {
		os.Exit(m.Run())
	}
	main := cli.Main
	if slices.Contains([]string{"geo", "processes", "growth"}, os.Args[1]) {
		main = Main
	}
	os.Exit(main(os.Args[1:], os.Stdout, os.Stderr))
}

// program returns the path of this test binary, which acts as globalfs with asProgram in the environment.
func program(t *testing.T) string {
	self, err := os.Executable()
	require.NoError(t, err)
	return self
}

// Every invalid command line ends at once, with the exit code of its kind and a line with the remedy.
func TestWrongInput(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		code int
		says string
	}{
		"command":  {[]string{"frob"}, command.ExitUsage, `unknown command "frob"; see 'globalfs-lab --help'`},
		"flag":     {[]string{"multicast", "--frob"}, command.ExitUsage, "unknown flag: --frob"},
		"argument": {[]string{"geo", "extra"}, command.ExitUsage, "takes no arguments"},
		"load":     {[]string{"geo", "load"}, command.ExitUsage, "give one DIR"},

		"scenario":    {[]string{"multicast", "--scenario", "moon"}, command.ExitInput, "give some of lan, colocated, distributed"},
		"protocol":    {[]string{"multicast", "--protocols", "paxos"}, command.ExitInput, "give some of primcast"},
		"dest":        {[]string{"multicast", "--destinations", "9"}, command.ExitInput, "give 1 to 8"},
		"outstanding": {[]string{"multicast", "--outstanding", "0"}, command.ExitInput, "give numbers above 0"},
		"output":      {[]string{"multicast", "-o", "xml"}, command.ExitInput, "give table or json"},

		"sizes":    {[]string{"micro", "--sizes", "10"}, command.ExitInput, "10 regions: give 1 to 9"},
		"compiled": {[]string{"reproduce", "--compiled", "gcc=x"}, command.ExitInput, "give bc=FILE or httpd=FILE"},

		"carrier":    {[]string{"cross", "--carriers", "pigeon"}, command.ExitInput, "give some of classes, one-order, direct"},
		"experiment": {[]string{"cross", "--experiments", "love"}, command.ExitInput, "give some of latency, contention, cut, cost"},
		"regions":    {[]string{"cross", "--regions", "a,b"}, command.ExitInput, "give three"},
		"objects":    {[]string{"cross", "--objects", "0"}, command.ExitInput, "give 1 to 1024"},
		"cut":        {[]string{"cross", "--cut", "0s"}, command.ExitInput, "give positive durations"},
		"samples":    {[]string{"cross", "--samples", "0"}, command.ExitInput, "give 1 or more"},

		"tree":   {[]string{"tram", "--trees", "bush"}, command.ExitInput, "give some of base, breadth, depth"},
		"beside": {[]string{"tram", "--beside", "pigeon"}, command.ExitInput, "--beside"},
		"price":  {[]string{"tram", "--step-cost", "0s"}, command.ExitInput, "give positive ones"},

		"shape":      {[]string{"processes", "--shape", "d"}, command.ExitInput, "give a, b or c"},
		"clients":    {[]string{"processes", "--outstanding", "0"}, command.ExitInput, "give 1 to 8192"},
		"duration":   {[]string{"processes", "--duration", "0s"}, command.ExitInput, "give a positive duration"},
		"warm-up":    {[]string{"processes", "--warmup", "-1s"}, command.ExitInput, "give 0 or a positive duration"},
		"window":     {[]string{"processes", "--window", "0"}, command.ExitInput, "give 1 or more"},
		"payload":    {[]string{"processes", "--payload", "-1"}, command.ExitInput, "give 0 to 1048576 bytes"},
		"durability": {[]string{"processes", "--durability", "none"}, command.ExitInput, "give memory, os or sync"},
		"role":       {[]string{"processes", "--kill", "king"}, command.ExitInput, "give primary, follower or sender"},
		"no log":     {[]string{"processes", "--kill", "primary"}, command.ExitInput, "give --durability os or sync"},
		"format":     {[]string{"processes", "-o", "xml"}, command.ExitInput, "give table or json"},

		"no program": {[]string{"geo", "--settings", "embedded", "--globalfs", "/none"}, command.ExitInput, "give --globalfs PATH"},
	} {
		var out, err bytes.Buffer
		require.Equal(t, c.code, Main(c.args, &out, &err), "%s: %s", name, &err)
		require.Contains(t, err.String(), c.says, name)
		require.Contains(t, err.String(), "globalfs-lab: ", name)
		require.Empty(t, out.String(), name)
	}
}

func TestEveryCommandHasHelpWithAnExample(t *testing.T) {
	var visit func(cmd *cobra.Command, args []string)
	visit = func(cmd *cobra.Command, args []string) {
		var out, err bytes.Buffer
		require.Equal(t, command.ExitOK, Main(append(args, "--help"), &out, &err))
		require.Contains(t, out.String(), "Examples:\n  ")
		require.Contains(t, out.String(), strings.Join(append([]string{"globalfs-lab"}, args...), " "))
		require.NotEmpty(t, cmd.Long)
		for _, sub := range cmd.Commands() {
			visit(sub, append(slices.Clone(args), sub.Name()))
		}
	}
	visit(newRoot(), nil)
}

// One measurement and its files; progress does not mix with the result.
func TestMulticast(t *testing.T) {
	var out, err bytes.Buffer
	dir := t.TempDir()
	code := Main([]string{"multicast", "--quick", "--scenario", "lan", "--protocols", "primcast", "-o", "json", "--out", dir}, &out, &err)
	require.Equal(t, command.ExitOK, code, err.String())
	require.Contains(t, err.String(), "lan, 2 destinations, 32 outstanding, primcast")
	written, readErr := os.ReadFile(filepath.Join(dir, "results.json"))
	require.NoError(t, readErr)
	require.Equal(t, string(written), out.String())
	require.FileExists(t, filepath.Join(dir, "figure-4.2-lan-2.svg"))
}

// A short run prints all tables, and writes its files.
func TestCross(t *testing.T) {
	var out, err bytes.Buffer
	dir := t.TempDir()
	args := []string{
		"cross", "--samples", "2", "--clients", "8", "--objects", "4", "--duration", "1s", "--in-flight", "6", "--cut", "6s", "--patience", "3s",
		"-o", "json", "--out", dir,
	}
	require.Equal(t, command.ExitOK, Main(args, &out, &err), err.String())
	require.Contains(t, err.String(), "contention: 8 clients, 4 files, direct")
	written, readErr := os.ReadFile(filepath.Join(dir, "cross.json"))
	require.NoError(t, readErr)
	require.Equal(t, string(written), out.String())
	var report map[string]any
	require.NoError(t, json.Unmarshal(written, &report))
	for _, part := range []string{"setup", "latency", "contention", "held", "callers", "local", "classes", "costs"} {
		require.NotEmpty(t, report[part], part)
	}
	tables, readErr := os.ReadFile(filepath.Join(dir, "cross.txt"))
	require.NoError(t, readErr)
	require.Contains(t, string(tables), "Cut of eu-west-1 for 6 s")
	require.FileExists(t, filepath.Join(dir, "cross-cut.svg"))
}

// A measurement of TRAM beside a message-passing protocol.
func TestTram(t *testing.T) {
	var out, err bytes.Buffer
	dir := t.TempDir()
	args := []string{
		"tram", "--trees", "base", "--destinations", "2", "--outstanding", "1", "--duration", "100us", "--beside", "primcast", "-o", "json", "--out", dir,
	}
	require.Equal(t, command.ExitOK, Main(args, &out, &err), err.String())
	require.Contains(t, err.String(), "tram-base, 2 destinations, 1 outstanding")
	written, readErr := os.ReadFile(filepath.Join(dir, "tram.json"))
	require.NoError(t, readErr)
	require.Equal(t, string(written), out.String())
	var report struct{ Points []map[string]any }
	require.NoError(t, json.Unmarshal(written, &report))
	require.Len(t, report.Points, 2)
	require.FileExists(t, filepath.Join(dir, "tram.txt"))
}

// Replicas are processes of this program. They are measured and killed.
func TestProcesses(t *testing.T) {
	t.Setenv(asProgram, "1")
	t.Setenv("GLOBALFS_LAB_WARMUP", "10ms")
	var out, err bytes.Buffer
	dir := t.TempDir()
	code := Main([]string{"processes", "--shape", "a", "--outstanding", "16", "--duration", "100ms", "--data-dir", dir, "-o", "json"}, &out, &err)
	require.Equal(t, command.ExitOK, code, err.String())
	var rows []measured
	require.NoError(t, json.Unmarshal(out.Bytes(), &rows))
	require.Len(t, rows, 1)
	require.Positive(t, rows[0].Messages)
	require.NotNil(t, rows[0].Reference)

	out.Reset()
	code = Main([]string{
		"processes", "--shape", "a", "--outstanding", "16", "--duration", "100ms", "--durability", "os", "--kill", "follower", "--down", "100ms", "--data-dir", dir,
	}, &out, &err)
	require.Equal(t, command.ExitOK, code, err.String())
	require.Contains(t, out.String(), "restarted and caught up in ")
	left, readErr := os.ReadDir(dir)
	require.NoError(t, readErr)
	require.Empty(t, left)
}
