package cli

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/command"
)

// leafCommands returns the command lines of all commands that do something, without those of cobra.
func leafCommands(t *testing.T) (all []string) {
	var visit func(*cobra.Command)
	visit = func(c *cobra.Command) {
		name := strings.TrimPrefix(c.CommandPath(), "globalfs ")
		if !c.HasSubCommands() && c.Name() != "help" && !strings.HasPrefix(name, "completion") {
			all = append(all, name)
		}
		for _, sub := range c.Commands() {
			visit(sub)
		}
	}
	visit(newRoot(io.Discard))
	require.Greater(t, len(all), 40)
	return all
}

// streams are the commands without a result: they run until they are stopped, and their log is for programs
// with --log-format json.
var streams = []string{"dev", "server", "bench loopback"}

// Each command has an example, refuses an unknown flag with the way to its help, and suggests a flag for a
// misspelt one.
func TestEachCommandHelps(t *testing.T) {
	for _, name := range leafCommands(t) {
		help := run(t, append(strings.Fields(name), "--help")...)
		if !strings.HasPrefix(name, "bench loopback") {
			require.Contains(t, help, "Examples:\n  ", name)
		}
		said := fails(t, command.ExitUsage, append(strings.Fields(name), "--no-such-flag")...)
		require.Equal(t, "globalfs: unknown flag: --no-such-flag; see 'globalfs "+name+" --help'\n", said)
		said = fails(t, command.ExitUsage, append(strings.Fields(name), "--log-levek", "info")...)
		require.Contains(t, said, "--log-levek, did you mean --log-level?; see 'globalfs "+name+" --help'", name)
		if slices.Contains(streams, name) {
			continue
		}
		require.Contains(t, help, "--output", name)
		said = fails(t, command.ExitUsage, append(strings.Fields(name), "--no-such-flag", "--output", "json")...)
		require.JSONEq(t, `{"error": "unknown flag: --no-such-flag; see 'globalfs `+name+` --help'", "exit_code": 128}`, said)
	}
}

// jsonCommands are command lines that end without a cluster or a mount, by command, with their exit codes.
func jsonCommands(dir string) map[string]struct {
	args string
	code int
} {
	missing := "--config " + filepath.Join(dir, "missing.yaml")
	type line = struct {
		args string
		code int
	}
	lines := map[string]line{
		"init":                    {filepath.Join(dir, "cluster.yaml"), command.ExitOK},
		"init --check":            {filepath.Join(dir, "cluster.yaml"), command.ExitOK},
		"certs servers":           {"--config " + filepath.Join(dir, "cluster.yaml"), command.ExitOK},
		"certs init":              {"--cluster other --dir other", command.ExitOK},
		"certs server":            {"n1 --dir other", command.ExitOK},
		"certs client":            {"laptop --dir other", command.ExitOK},
		"certs admin":             {"root --dir other", command.ExitOK},
		"certs etcd":              {"m1 --host 127.0.0.1 --dir other", command.ExitOK},
		"certs show":              {"other/ca.pem", command.ExitOK},
		"certs rotate-vector-key": {"--dir other", command.ExitOK},
		"certs list":              {missing, command.ExitInput},
		"certs revoke":            {"laptop " + missing, command.ExitInput},
		"config show":             {"--config " + filepath.Join(dir, "cluster.yaml"), command.ExitOK},
		"version":                 {"", command.ExitOK},
		"man":                     {filepath.Join(dir, "man"), command.ExitOK},
		"mount":                   {"127.0.0.1:1 " + filepath.Join(dir, "missing"), command.ExitInput},
		"umount":                  {dir, command.ExitFailure},
		"status":                  {missing, command.ExitInput},
		"trace":                   {dir + " " + missing, command.ExitFailure},
		"debug bundle":            {missing + " " + filepath.Join(dir, "bundle.tar.gz"), command.ExitOK},
		"backup create":           {missing + " " + filepath.Join(dir, "backup"), command.ExitInput},
		"backup list":             {filepath.Join(dir, "none"), command.ExitFailure},
		"backup verify":           {filepath.Join(dir, "none"), command.ExitFailure},
		"restore metadata":        {"--from " + filepath.Join(dir, "none"), command.ExitFailure},
		"restore blocks":          {"--from " + filepath.Join(dir, "none"), command.ExitInput},
		"fsck":                    {dir, exitUnable},
		"wait":                    {"token " + dir, command.ExitFailure},
		"place":                   {"--list " + dir, command.ExitFailure},
		"admin add-partition":     {"west " + missing, command.ExitInput},
		"admin join":              {"west 127.0.0.1:1 " + missing, command.ExitInput},
		"admin drain":             {"a " + missing, command.ExitInput},
		"admin remove":            {"a " + missing, command.ExitInput},
		"admin move-leader":       {"0 a " + missing, command.ExitInput},
		"admin replace":           {"0 a " + missing, command.ExitInput},
		"admin recover":           {"--data-dir " + filepath.Join(dir, "none"), command.ExitFailure},
		"admin forget":            {"other " + missing, command.ExitInput},
		"bench micro":             {"--clients 0", command.ExitInput},
		"bench regions":           {"--cycles 0", command.ExitInput},
		"bench blocks":            {"--rounds 0", command.ExitInput},
		"bench file":              {"--rounds 0", command.ExitInput},
		"bench mount":             {filepath.Join(dir, "none"), command.ExitInput},
	}
	for _, name := range []string{"where", "info", "du", "summary", "warmup", "token", "sync", "gc"} { // of a path that is on no mount
		lines[name] = line{filepath.Join(dir, "cluster.yaml"), command.ExitFailure}
	}
	return lines
}

// snake reports whether all keys of a JSON value have the style of the others.
func snake(value any) bool {
	switch v := value.(type) {
	case map[string]any:
		for key, inner := range v {
			if key != strings.ToLower(key) || strings.Contains(key, "-") || !snake(inner) {
				return false
			}
		}
	case []any:
		return !slices.ContainsFunc(v, func(inner any) bool { return !snake(inner) })
	}
	return true
}

// With --output json each command prints one JSON value: its result on the output, or the error on the error
// output.
func TestEachCommandSpeaksJSON(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	dir, err := os.Getwd()
	require.NoError(t, err)
	lines := jsonCommands(dir)
	for _, name := range leafCommands(t) {
		_, tried := lines[name]
		require.NotEqual(t, slices.Contains(streams, name), tried, name)
	}
	for _, name := range append([]string{"init", "certs servers", "certs init"}, sortedKeys(lines)...) { // the others need these files
		args := append(strings.Fields(name), strings.Fields(lines[name].args)...)
		if name == "init" {
			args = append(args, "--force")
		}
		var out, failed bytes.Buffer
		require.Equal(t, lines[name].code, Main(append(args, "--output", "json"), &out, &failed), "%q: %s%s", args, &out, &failed)
		text := out.Bytes()
		if lines[name].code != command.ExitOK {
			require.True(t, out.Len() == 0 || json.Valid(out.Bytes()), "%q: %s", args, &out) // what was found before the error
			text = failed.Bytes()
		}
		var value any
		require.NoError(t, json.Unmarshal(text, &value), "%q: %s", args, text)
		require.True(t, snake(value), "%q: %s", args, text)
		if lines[name].code != command.ExitOK {
			said := value.(map[string]any)
			require.NotEmpty(t, said["error"], name)
			require.EqualValues(t, lines[name].code, said["exit_code"], name)
		}
	}
}

func sortedKeys[V any](m map[string]V) (keys []string) {
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
