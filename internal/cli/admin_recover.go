package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/globalfs/globalfs/internal/attach"
	"github.com/globalfs/globalfs/internal/backup"
	"github.com/globalfs/globalfs/internal/command"
	"github.com/globalfs/globalfs/internal/progress"
	"github.com/globalfs/globalfs/internal/salvage"
)

// recoverFlags are the flags of `admin recover`.
type recoverFlags struct {
	dirs   []string
	into   string
	lost   string
	backup string
	yes    bool
	output string
}

func newAdminRecover() *cobra.Command {
	var f recoverFlags
	cmd := &cobra.Command{
		Use:   "recover PARTITION... --data-dir DIR --into REPOSITORY",
		Short: "Recover a cluster after the permanent loss of a majority of replicas",
		Long: `recover makes a backup from the data directories that are left of a cluster. It combines them into one sound state of all partitions. Use
'globalfs restore' to make a new cluster from the backup. All servers must be stopped. The directories stay as they are.

--data-dir names the directory of a server that is left, or a directory with several of them; repeat it for all. PARTITION names, by path or
number, each partition without a majority of its replicas in these directories. Such a partition may lose acknowledged updates: those that
only its missing replicas have. The other partitions lose nothing. A partition without any replica, as after the loss of its region, takes its
state from the last backup (--lost-from), and loses all later updates. A partition that was still being added begins empty.

The command prints for each partition the logs that are left, the log from which the partition continues, and the updates that it may lack. It prints the outcome of each
change of several partitions that was under way, the names and inodes that change to make one consistent tree, and the blocks without a copy.
Then it asks for the paths of the partitions that may lose updates; --yes answers this question. Without PARTITION it only prints.

The new cluster has another identity. It refuses the directories, mounts and tokens of the old one.

Exit codes: 0 it has printed, or written the recovered state; 1 it failed; 3 the loss is not accepted, and nothing is written.`,
		Example: `  globalfs admin recover --data-dir /var/lib/globalfs                          # what would be lost
  globalfs admin recover /us-west-2 --data-dir /mnt/a --data-dir /mnt/b --into /backups/recovered
  globalfs admin recover / /us-west-2 --data-dir /mnt/a --into /backups/recovered --yes -o json
  globalfs admin recover /eu-west-1 --data-dir /mnt --lost-from /backups/prod --into /backups/recovered`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 && f.into == "" {
				return command.UsageError(errors.New("admin recover: give the repository for the recovered state with --into"))
			}
			return f.run(cmd, args)
		},
	}
	cmd.Flags().StringArrayVar(&f.dirs, "data-dir", nil, "data directory of a stopped server, or a directory that holds several (repeatable)")
	_ = cmd.MarkFlagRequired("data-dir") // the flag exists
	cmd.Flags().StringVar(&f.into, "into", "", "repository that gets the recovered state as a backup; made if it is missing")
	cmd.Flags().StringVar(&f.lost, "lost-from", "", "repository with a backup of the cluster, for partitions without any replica that is left")
	cmd.Flags().StringVar(&f.backup, "backup", "", "with --lost-from: id of the backup (default: the newest)")
	cmd.Flags().BoolVar(&f.yes, "yes", false, "do not ask: the named partitions may lose updates")
	outputFlag(cmd, &f.output)
	return cmd
}

func (f *recoverFlags) run(cmd *cobra.Command, named []string) (err error) {
	o := salvage.Options{Dirs: f.dirs, BackupID: f.backup, Objects: attach.ExistingObjects}
	if f.lost != "" {
		var end func()
		if o.Backup, end, err = openRepository(cmd.Context(), f.lost, false); err != nil {
			return err
		}
		defer end()
	}
	var s *salvage.Salvage
	err = metered(cmd, func(meter *progress.Meter) (err error) {
		o.Progress = meter
		s, err = salvage.Open(cmd.Context(), o)
		return err
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	statement := &s.Statement
	if f.output != "json" {
		statement.Print(cmd.OutOrStdout())
	}
	var refused error
	if len(named) > 0 {
		if refused = f.accept(cmd, statement, named); refused == nil {
			var m *backup.Manifest
			if m, err = f.save(cmd, s); err != nil {
				return err
			}
			statement.Backup = m.ID
		}
	}
	if f.output == "json" {
		return errors.Join(command.PrintJSON(cmd.OutOrStdout(), statement), refused)
	}
	if refused == nil {
		fmt.Fprintln(cmd.OutOrStdout(), f.next(statement))
	}
	return refused
}

// nothingLost ends the statement about a cluster in which no partition has lost its majority.
const nothingLost = "every partition has a majority of its replicas, and nothing is lost: start the servers again; lost ones are replaced ('globalfs admin replace')"

// next returns the next step of the operator after a statement.
func (f *recoverFlags) next(s *salvage.Statement) string {
	short := s.Short()
	switch {
	case s.Backup != "":
		return fmt.Sprintf("the recovered state is backup %s. This makes a new cluster of it (docs/recovery.md): globalfs restore metadata --from '%s' --backup %s", s.Backup, f.into, s.Backup)
	case len(short) == 0:
		return nothingLost
	}
	return "nothing is written: to accept the loss, name the partitions that may lose updates: " + strings.Join(short, " ")
}

// accept returns nil if the operator accepts the loss.
func (f *recoverFlags) accept(cmd *cobra.Command, s *salvage.Statement, named []string) error {
	short := s.Short()
	if len(short) == 0 {
		return command.InputError(errors.New(nothingLost))
	}
	given := make([]string, len(named))
	for i, name := range named {
		given[i] = pathOfPartition(s, name)
	}
	slices.Sort(given)
	slices.Sort(short)
	given = slices.Compact(given)
	switch {
	case !slices.Equal(given, short):
		return command.InputError(fmt.Errorf("the partitions that may lose updates are %s, and the command names %s: name these, or give more --data-dir", strings.Join(short, " "), strings.Join(given, " ")))
	case f.yes:
		return nil
	case f.output == "json":
		return command.InputError(errors.New("nothing is written: -o json needs --yes"))
	}
	return confirmed(cmd.Context(), cmd.InOrStdin(), cmd.ErrOrStderr(), strings.Join(short, " "))
}

// pathOfPartition returns the path of a partition that is named by its path or its number.
func pathOfPartition(s *salvage.Statement, name string) string {
	for _, p := range s.Partitions {
		if name == strconv.Itoa(int(p.ID)) {
			return p.Path
		}
	}
	return name
}

// confirmed asks an operator to type some words. It returns nil if these are typed.
func confirmed(ctx context.Context, in io.Reader, out io.Writer, words string) error {
	fmt.Fprintf(out, "Updates of %s may be lost for ever. Type %q to go on: ", words, words)
	typed := make(chan string, 1)
	go func() { // a read of a terminal cannot be interrupted: the process ends with it
		line, _ := bufio.NewReader(in).ReadString('\n') // without a line nothing is typed
		typed <- line
	}()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case line := <-typed:
		if strings.Join(strings.Fields(line), " ") != words {
			return command.InputError(errors.New("not confirmed: nothing is written"))
		}
	}
	return nil
}

// save writes the recovered state into the repository.
func (f *recoverFlags) save(cmd *cobra.Command, s *salvage.Salvage) (m *backup.Manifest, err error) {
	repository, end, err := openRepository(cmd.Context(), f.into, true)
	if err != nil {
		return nil, err
	}
	defer end()
	err = metered(cmd, func(meter *progress.Meter) (err error) {
		m, err = repository.Create(cmd.Context(), s, backup.Options{Build: command.Version(), Progress: meter})
		return err
	})
	return m, err
}
