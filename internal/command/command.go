// Package command has the common parts of the commands of all GlobalFS programs: exit codes, errors by kind,
// flags from the environment, and results as tables or JSON. A program sets up its root command with Prepare
// and runs it with Execute or Main.
package command

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Prepare gives a root command the behaviour of all programs: it prints its help without a command, refuses
// unknown commands and unknown values of flags, knows its version, and takes flags from the environment.
func Prepare(root *cobra.Command) {
	root.Version = Version()
	root.SilenceUsage, root.SilenceErrors = true, true
	Group(root)
	root.SetFlagErrorFunc(refuseFlag)
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error {
		if err := fromEnvironment(cmd); err != nil {
			return err
		}
		if err := CheckChoices(cmd); err != nil {
			return err
		}
		return checkRequired(cmd)
	}
}

// checkRequired names the required flags that are missing. Cobra's own check runs later and has no exit code.
func checkRequired(cmd *cobra.Command) error {
	var missing []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if f.Annotations[cobra.BashCompOneRequiredFlag] != nil && !f.Changed {
			missing = append(missing, "--"+f.Name)
		}
	})
	if len(missing) == 0 {
		return nil
	}
	return refuseFlag(cmd, fmt.Errorf("give %s", strings.Join(missing, " and ")))
}

// Execute runs the command that args name and returns its error, which is not printed. The first SIGINT or
// SIGTERM ends the command's context; a second one ends the process at once.
func Execute(root *cobra.Command, args []string, stdout, stderr io.Writer) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)
	checkHelp(root)
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	return root.ExecuteContext(ctx)
}

// Main runs the command that args name, prints its error and returns the exit code.
func Main(root *cobra.Command, args []string, stdout, stderr io.Writer) int {
	err := Execute(root, args, stdout, stderr)
	if err != nil {
		PrintError(stderr, root, args, err)
	}
	return ExitCode(err)
}

// version is the version of a release or package, which the linker sets; empty: that of the module.
var version string

// Version returns the version of the program.
func Version() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "unknown"
}

// Group sets up a command with only subcommands: it prints its help, and refuses unknown subcommands.
func Group(cmd *cobra.Command) {
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			return UsageError(fmt.Errorf("unknown command %q%s; see '%s --help'", args[0], Suggest(args[0], names(cmd)), cmd.CommandPath()))
		}
		return nil
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
}

// checkHelp makes the command help refuse commands that do not exist.
func checkHelp(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	for _, c := range root.Commands() {
		if c.Name() == "help" {
			c.Args = func(_ *cobra.Command, args []string) error {
				cmd, rest, err := root.Find(args)
				if err == nil && len(rest) > 0 {
					err = fmt.Errorf("unknown command %q%s; see '%s --help'", rest[0], Suggest(rest[0], names(cmd)), cmd.CommandPath())
				}
				if err != nil {
					return UsageError(err)
				}
				return nil
			}
		}
	}
}

// names returns the names of the subcommands.
func names(cmd *cobra.Command) (all []string) {
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			all = append(all, c.Name())
		}
	}
	return all
}

// NoArguments refuses arguments as a usage error. It is the Args of a command.
func NoArguments(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return UsageError(fmt.Errorf("%s takes no arguments, got %q", strings.TrimPrefix(cmd.CommandPath(), cmd.Root().Name()+" "), args))
	}
	return nil
}
