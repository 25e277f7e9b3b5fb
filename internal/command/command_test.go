package command

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
)

// testRoot has one command, which prints its flags and returns err.
func testRoot(err error) *cobra.Command {
	root := &cobra.Command{Use: "two-words"}
	Prepare(root)
	var name string
	var number int
	do := &cobra.Command{Use: "do", Args: NoArguments, RunE: func(cmd *cobra.Command, _ []string) error {
		fmt.Fprintln(cmd.OutOrStdout(), name, number)
		return err
	}}
	do.Flags().StringVar(&name, "some-name", "default", "")
	do.Flags().IntVar(&number, "number", 1, "")
	root.AddCommand(do)
	return root
}

// The command line overrides the environment, and the environment overrides the default. The name of a
// variable begins with the name of its program.
func TestEnvironment(t *testing.T) {
	run := func(args ...string) (string, string, int) {
		var out, failed bytes.Buffer
		code := Main(testRoot(nil), append([]string{"do"}, args...), &out, &failed)
		return out.String(), failed.String(), code
	}
	t.Setenv("TWO_NUMBER", "5")
	out, _, code := run()
	require.Equal(t, ExitOK, code)
	require.Equal(t, "default 1\n", out)
	t.Setenv("TWO_WORDS_SOME_NAME", "environment")
	t.Setenv("TWO_WORDS_HELP", "true")
	out, _, _ = run("--number", "2")
	require.Equal(t, "environment 2\n", out)
	out, _, _ = run("--some-name", "line")
	require.Equal(t, "line 1\n", out)
	t.Setenv("TWO_WORDS_NUMBER", "many")
	_, failed, code := run()
	require.Equal(t, ExitInput, code)
	require.Contains(t, failed, `two-words: TWO_WORDS_NUMBER="many": `)
}

// The outermost kind of an error counts, at any depth of wrapping.
func TestExitCodes(t *testing.T) {
	for _, c := range []struct {
		err  error
		code int
	}{
		{nil, ExitOK},
		{io.EOF, ExitFailure},
		{InputError(io.EOF), ExitInput},
		{fmt.Errorf("file: %w", InputError(io.EOF)), ExitInput},
		{errors.Join(io.EOF, InputError(io.EOF)), ExitInput},
		{UsageError(InputError(io.EOF)), ExitUsage},
		{StatusError(io.EOF, 8), 8},
	} {
		var out, failed bytes.Buffer
		require.Equal(t, c.code, Main(testRoot(c.err), []string{"do"}, &out, &failed), "%v", c.err)
		if c.err != nil {
			help := ""
			if c.code == ExitUsage {
				help = "; see 'two-words do --help'"
			}
			require.Equal(t, "two-words: "+c.err.Error()+help+"\n", failed.String())
			require.ErrorIs(t, c.err, io.EOF)
		}
	}
}

func TestUsage(t *testing.T) {
	for says, args := range map[string][]string{
		`unknown command "be"; see 'two-words --help'`: {"be"},
		`unknown command "dp", did you mean do?; see`:  {"dp"},
		`unknown command ""; see`:                      {""},
		"see 'two-words do --help'":                    {"do", "--frob"},
		`do takes no arguments, got ["it"]; see`:       {"do", "it"},
		`unknown command "dp", did you mean do?; se`:   {"help", "dp"},
		`two-words: --number "x": not a number`:        {"do", "--number", "x"},
	} {
		var out, failed bytes.Buffer
		require.Equal(t, ExitUsage, Main(testRoot(nil), args, &out, &failed))
		require.Contains(t, failed.String(), says)
		require.Empty(t, out.String())
	}
	var out bytes.Buffer
	require.Equal(t, ExitOK, Main(testRoot(nil), nil, &out, io.Discard))
	require.Contains(t, out.String(), "Usage:")
}

func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	require.Equal(t, io.EOF, Interrupted(ctx, io.EOF))
	cancel()
	require.NoError(t, Interrupted(ctx, nil))
	require.ErrorContains(t, Interrupted(ctx, io.EOF), "interrupted, there is no result")
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, io.ErrShortWrite }

// Both formats are saved, independently of the printed one, and even if printing fails.
func TestResult(t *testing.T) {
	r := Result{Name: "name", Rows: []int{1}, Table: func(w io.Writer) error {
		_, err := fmt.Fprintln(w, "one")
		return err
	}}
	for format, want := range map[Output]string{"table": "one\n", "json": "[\n  1\n]\n"} {
		dir := filepath.Join(t.TempDir(), "made")
		var out bytes.Buffer
		require.NoError(t, r.Write(&out, format, dir))
		require.Equal(t, want, out.String())
		require.ErrorIs(t, r.Write(broken{}, format, dir), io.ErrShortWrite)
		for name, want := range map[string]string{"name.txt": "one\n", "name.json": "[\n  1\n]\n"} {
			saved, err := os.ReadFile(filepath.Join(dir, name))
			require.NoError(t, err)
			require.Equal(t, want, string(saved))
		}
	}
}

// Unknown values of a flag with known ones are refused before the command runs, with a suggestion.
func TestChoices(t *testing.T) {
	var list []string
	root := &cobra.Command{Use: "two-words"}
	Prepare(root)
	do := &cobra.Command{Use: "do", RunE: func(*cobra.Command, []string) error { return nil }}
	var output Output
	output.Register(do)
	do.Flags().StringSliceVar(&list, "list", []string{"sync"}, "")
	Choice(do, do.Flags(), "list", "os", "sync", "memory")
	root.AddCommand(do)
	for says, args := range map[string][]string{
		`--output "jsn": give table or json, did you mean json?`:     {"do", "-o", "jsn"},
		`--list "xml": give os, sync or memory` + "\n":               {"do", "--list", "os,xml"},
		`--list "memry": give os, sync or memory, did you mean memo`: {"do", "--list", "memry"},
	} {
		var out, failed bytes.Buffer
		require.Equal(t, ExitInput, Main(root, args, &out, &failed), says)
		require.Contains(t, failed.String(), says)
		list, output = []string{"sync"}, "table"
	}
}
