// Package cli is the command line: one cobra command a file, thin over the packages that do the
// work. Only it knows of exit codes.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/spf13/cobra"
)

// Exit codes, as etcdctl has them where it has one.
const (
	exitOK      = 0
	exitFailure = 1   // the command could not do its work
	exitInput   = 3   // a value is wrong: a flag's, or one in a file
	exitUsage   = 128 // unknown command or flag, or a wrong number of arguments
)

// inputError marks errors of what the user gave.
type inputError struct{ error }

func (e inputError) Unwrap() error { return e.error }

// usageError marks a command line that does not parse.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// statusError ends the program with a code that only its command has.
type statusError struct {
	error
	code int
}

func (e statusError) Unwrap() error { return e.error }

// Main runs the program and gives its exit code. The first SIGINT or SIGTERM ends a command in
// order; a second one ends the process as it stands.
func Main(args []string, stdout, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)
	args, helper := asMountHelper(os.Args[0], args)
	root := newRoot(stderr)
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitOK
	}
	if !errors.Is(err, errSaid) {
		fmt.Fprintf(stderr, "globalfs: %v\n", err)
	}
	var input inputError
	var usage usageError
	var status statusError
	switch {
	case helper:
		return exitMount
	case errors.As(err, &usage):
		return exitUsage
	case errors.As(err, &input):
		return exitInput
	case errors.As(err, &status):
		return status.code
	}
	return exitFailure
}

func newRoot(stderr io.Writer) *cobra.Command {
	var logging logFlags
	root := &cobra.Command{
		Use:   "globalfs",
		Short: "A geo-distributed, strongly consistent POSIX file system",
		Long: `GlobalFS is one file tree over several cloud regions: every update is strongly ordered
by atomic multicast, each directory lives in the region that its users choose.`,
		Version:       version(),
		SilenceUsage:  true,
		SilenceErrors: true,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usageError{fmt.Errorf("unknown command %q; see 'globalfs --help'", args[0])}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usageError{fmt.Errorf("%w; see '%s --help'", err, cmd.CommandPath())}
	})
	logging.register(root, stderr)
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error { return fromEnvironment(cmd) }
	root.AddCommand(newInit(), newServer(&logging), newMount(&logging), newUmount(), newStatus(&logging), newAdmin(&logging), newDev(&logging), newBench(&logging), newWhere(), newPlace(), newToken(), newWait(), newFsck(), newGC(), newStorage(), newCerts(), newMan())
	return root
}

// version is the module's, as the build recorded it.
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "unknown"
}

// logFlags are the flags of every command about its log, which goes to stderr.
type logFlags struct {
	level  string
	format string
	stderr io.Writer
}

func (l *logFlags) register(root *cobra.Command, stderr io.Writer) {
	l.stderr = stderr
	root.PersistentFlags().StringVar(&l.level, "log-level", "info", "debug, info, warn or error")
	root.PersistentFlags().StringVar(&l.format, "log-format", "text", "text (key=value) or json")
}

func (l *logFlags) logger() (*slog.Logger, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(l.level)); err != nil {
		return nil, inputError{fmt.Errorf("--log-level %q: give debug, info, warn or error", l.level)}
	}
	options := &slog.HandlerOptions{Level: level}
	switch l.format {
	case "text":
		return slog.New(slog.NewTextHandler(l.stderr, options)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(l.stderr, options)), nil
	}
	return nil, inputError{fmt.Errorf("--log-format %q: give text or json", l.format)}
}

// noArguments refuses arguments as a usage error.
func noArguments(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usageError{fmt.Errorf("%s takes no arguments, got %q", cmd.CommandPath(), args)}
	}
	return nil
}
