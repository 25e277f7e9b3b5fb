package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/globalfs/globalfs/internal/backup"
	"github.com/globalfs/globalfs/internal/command"
	"github.com/globalfs/globalfs/internal/progress"
)

// backupFlags are the flags of the commands about backups.
type backupFlags struct {
	access  accessFlags
	logging *logFlags
	id      string
	output  string
}

func newBackup(logging *logFlags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "backup",
		Short: "Save the metadata and the blocks of a running cluster",
		Long: `backup saves the metadata of all partitions at one consistent cut, and the blocks of the files, in a repository. The cluster continues to
serve files, and no operation waits. 'globalfs restore' makes a new cluster from a backup.

A repository is a directory, or a place in object storage (s3://...). It holds many backups, and each backup adds only the changed data. It
holds the content of all files: protect it.`,
		Example: `  globalfs backup create /backups/prod
  globalfs backup list /backups/prod
  globalfs backup verify /backups/prod`,
	}
	command.Group(cmd)
	cmd.AddCommand(newBackupCreate(logging), newBackupVerify(), newBackupList())
	return cmd
}

func newBackupCreate(logging *logFlags) *cobra.Command {
	f := backupFlags{logging: logging}
	cmd := &cobra.Command{
		Use:   "create REPOSITORY",
		Short: "Make a backup of a running cluster",
		Long: `create makes a backup. All partitions save their states at one consistent cut: an update is in the backup only with all updates on which it depends. Then the blocks
that the repository lacks are copied. Servers delete none of the blocks of the backup until it is complete.

A majority of the replicas of each partition must run. In a cluster with certificates it needs the certificate of an administrator.
An interrupted backup does not count as a backup. The next one uses the blocks and metadata that it has stored.

REPOSITORY is a directory, or a place in object storage: s3://BUCKET/PREFIX?endpoint=https://HOST, with &region=, &pathstyle=true and
&credentials=FILE if needed. Credentials come from AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or from ~/.aws/credentials.`,
		Example: `  globalfs backup create /backups/prod --config cluster.yaml
  globalfs backup create 's3://backups/prod?region=eu-west-1' --config cluster.yaml -o json`,
		Args: oneRepository,
		RunE: func(cmd *cobra.Command, args []string) error { return f.create(cmd, args[0]) },
	}
	f.access.register(cmd)
	outputFlag(cmd, &f.output)
	return cmd
}

func (f *backupFlags) registerID(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.id, "backup", "", "id of the backup, as 'globalfs backup list' shows it (default: the newest)")
}

func (f *backupFlags) create(cmd *cobra.Command, where string) error {
	logger, err := f.logging.logger()
	if err != nil {
		return err
	}
	repository, end, err := openRepository(cmd.Context(), where, true)
	if err != nil {
		return err
	}
	defer end()
	c, err := openBackedUp(cmd.Context(), &f.access, logger)
	if err != nil {
		return err
	}
	defer func() { _ = c.close() }() // it only ends connections
	var m *backup.Manifest
	err = metered(cmd, func(meter *progress.Meter) (err error) {
		m, err = repository.Create(cmd.Context(), c, backup.Options{Build: command.Version(), Progress: meter})
		return err
	})
	if errors.Is(err, context.Canceled) {
		return fmt.Errorf("interrupted: there is no backup; what was stored is used by the next 'globalfs backup create %s': %w", where, err)
	}
	if err != nil {
		return err
	}
	if f.output == "json" {
		return command.PrintJSON(cmd.OutOrStdout(), m)
	}
	fmt.Fprintf(cmd.OutOrStdout(), "backup %s of cluster %s: %d partitions, %s of metadata, %d blocks; %s were added to %s\n",
		m.ID, m.Cluster, len(m.Partitions), size(m.Bytes), m.BlockCount, size(m.NewBytes), where)
	return nil
}

func newBackupVerify() *cobra.Command {
	var f backupFlags
	cmd := &cobra.Command{
		Use:   "verify REPOSITORY",
		Short: "Read a backup and check it",
		Long: `verify reads all data of a backup and compares the checksums. It rebuilds the metadata as a restore does, and checks that all partitions
form one sound tree.
Exit codes: 0 the backup is sound, 1 it is not or could not be read.`,
		Example: `  globalfs backup verify /backups/prod
  globalfs backup verify /backups/prod --backup 20261123T050000.000Z -o json`,
		Args: oneRepository,
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.report(cmd, args[0], "is sound", func(r *backup.Repository, meter *progress.Meter) (*backup.Report, error) {
				return r.Verify(cmd.Context(), f.id, backup.Options{Progress: meter})
			})
		},
	}
	f.registerID(cmd)
	outputFlag(cmd, &f.output)
	return cmd
}

// report runs do on a repository, and prints its report.
func (f *backupFlags) report(cmd *cobra.Command, where, sound string, do func(*backup.Repository, *progress.Meter) (*backup.Report, error)) error {
	repository, end, err := openRepository(cmd.Context(), where, false)
	if err != nil {
		return err
	}
	defer end()
	var report *backup.Report
	err = metered(cmd, func(meter *progress.Meter) (err error) {
		report, err = do(repository, meter)
		return err
	})
	if err != nil {
		return err
	}
	out := cmd.OutOrStdout()
	if f.output == "json" {
		err = command.PrintJSON(out, report)
	} else {
		for _, p := range report.Problems {
			fmt.Fprintln(out, p)
		}
		if len(report.Problems) == 0 {
			fmt.Fprintf(out, "backup %s %s: %d blocks, %d of them read; %d open commands finished, %d aborted\n",
				report.ID, sound, report.Blocks, report.Read, report.Finished, report.Aborted)
		}
	}
	if err == nil && len(report.Problems) > 0 {
		err = fmt.Errorf("backup %s is damaged", report.ID)
	}
	return err
}

func newBackupList() *cobra.Command {
	var f backupFlags
	cmd := &cobra.Command{
		Use:     "list REPOSITORY",
		Short:   "List the backups in a repository",
		Example: `  globalfs backup list /backups/prod`,
		Args:    oneRepository,
		RunE: func(cmd *cobra.Command, args []string) error {
			repository, end, err := openRepository(cmd.Context(), args[0], false)
			if err != nil {
				return err
			}
			defer end()
			all, unreadable, err := repository.List(cmd.Context())
			if err != nil {
				return err
			}
			if f.output == "json" {
				err = command.PrintJSON(cmd.OutOrStdout(), append([]backup.Manifest{}, all...)) // not null
			} else {
				err = printBackups(cmd.OutOrStdout(), all)
			}
			return errors.Join(append(unreadable, err)...)
		},
	}
	outputFlag(cmd, &f.output)
	return cmd
}

func printBackups(out io.Writer, all []backup.Manifest) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "ID\tCLUSTER\tPARTITIONS\tMETADATA\tBLOCKS\tADDED")
	for _, m := range all {
		fmt.Fprintf(w, "%s\t%s\t%d\t%s\t%d\t%s\n", m.ID, m.Cluster, len(m.Partitions), size(m.Bytes), m.BlockCount, size(m.NewBytes))
	}
	return w.Flush()
}

func oneRepository(cmd *cobra.Command, args []string) error {
	if len(args) != 1 {
		return command.UsageError(fmt.Errorf("%s: give one REPOSITORY: a directory, or s3://BUCKET/PREFIX?endpoint=https://HOST", cmd.CommandPath()))
	}
	return nil
}
