// Package cli implements the commands of the program globalfs (docs/commands.md). Most cobra
// commands have a file of their name: admin_recover.go has 'globalfs admin recover'. A command parses its
// flags and arguments, calls a package that does the work, and prints the result as text or JSON:
//
//	server                          package daemon    a server of a cluster
//	mount, umount                   package mount     a mounted tree
//	dev                             package dev       a cluster in one process
//	admin, status, certs            package daemon    calls to servers; package identity: certificates
//	backup, restore, admin recover  package backup    repositories; package salvage: the rest of lost clusters
//	fsck, gc                        package fsck, collector
//	place, where, info, du, wait    control attributes of a mount (package mount)
//	bench                           package bench
//
// accessFlags, certsChoice and clusterFlags are the flags by which a command finds a cluster, chooses its
// certificate, or configures an embedded cluster. Package command has the exit codes, the output formats and
// the other common parts of all programs. Only this package ends the process, by the exit code of Main.
package cli

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"

	"github.com/spf13/cobra"

	"github.com/globalfs/globalfs/internal/command"
)

// Main runs the program and returns its exit code.
func Main(args []string, stdout, stderr io.Writer) int {
	if isLogHolder() {
		return runLogHolder()
	}
	args, helper := asMountHelper(os.Args[0], args)
	root := newRoot(stderr)
	err := command.Execute(root, args, stdout, stderr)
	if err != nil && !errors.Is(err, errPrinted) {
		command.PrintError(stderr, root, args, err)
	}
	if err != nil && helper {
		return exitMount
	}
	return command.ExitCode(err)
}

func newRoot(stderr io.Writer) *cobra.Command {
	var logging logFlags
	root := &cobra.Command{
		Use:   "globalfs",
		Short: "A geo-distributed, strongly consistent POSIX file system",
		Long: `GlobalFS is one file tree over several cloud regions: every update is strongly ordered
by atomic multicast, each directory lives in the region that its users choose.`,
	}
	command.Prepare(root)
	logging.register(root, stderr)
	addGroup(root, "setup", "Set up a cluster:", newDev(&logging), newInit(), newCerts(&logging), newServer(&logging), newConfig())
	addGroup(root, "mount", "Mount the tree:", newMount(&logging), newUmount(), newWarmup())
	addGroup(root, "tree", "Use a mounted tree:", newPlace(), newWhere(), newInfo(), newDu(), newSummary(), newToken(), newWait(), newSync())
	addGroup(root, "operate", "Operate a cluster:", newStatus(&logging), newAdmin(&logging), newBackup(&logging), newRestore(&logging), newFsck(), newGC())
	addGroup(root, "measure", "Measure and find errors:", newBench(&logging), newTrace(&logging), newDebug(&logging))
	root.AddCommand(newVersion(), newMan())
	root.InitDefaultCompletionCmd()
	for _, c := range root.Commands() {
		if c.Name() == "completion" { // without a shell it prints its help, with an unknown one an error
			command.Group(c)
		}
	}
	return root
}

// addGroup adds commands to root. The help shows them together, below title.
func addGroup(root *cobra.Command, id, title string, commands ...*cobra.Command) {
	root.AddGroup(&cobra.Group{ID: id, Title: title})
	for _, c := range commands {
		c.GroupID = id
	}
	root.AddCommand(commands...)
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
	command.Choice(root, root.PersistentFlags(), "log-level", "debug", "info", "warn", "error")
	command.Choice(root, root.PersistentFlags(), "log-format", "text", "json")
}

func (l *logFlags) logger() (*slog.Logger, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(l.level)); err != nil {
		return nil, command.InputError(fmt.Errorf("--log-level %q: give debug, info, warn or error", l.level))
	}
	options := &slog.HandlerOptions{Level: level}
	if l.format == "json" {
		return slog.New(slog.NewJSONHandler(l.stderr, options)), nil
	}
	return slog.New(slog.NewTextHandler(l.stderr, options)), nil
}
