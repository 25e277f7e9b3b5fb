package cli

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/globalfs/globalfs/internal/backup"
	"github.com/globalfs/globalfs/internal/command"
	"github.com/globalfs/globalfs/internal/daemon"
	"github.com/globalfs/globalfs/internal/progress"
)

// restoreFlags are the flags of `restore`.
type restoreFlags struct {
	backupFlags
	from    string
	config  string
	servers []string
}

func newRestore(logging *logFlags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "restore",
		Short: "Make a new cluster from a backup",
		Long: `restore makes the data of a new cluster from a backup. Run 'restore metadata' on the host of each server before the servers start for the first
time. When they run, run 'restore blocks' once. The new cluster has another identity: mounts of the old cluster do not work with it.`,
		Example: `  globalfs restore metadata --from /backups/prod --config cluster.yaml
  globalfs restore blocks --from /backups/prod --config cluster.yaml`,
	}
	command.Group(cmd)
	cmd.AddCommand(newRestoreMetadata(), newRestoreBlocks(logging))
	return cmd
}

func newRestoreMetadata() *cobra.Command {
	var f restoreFlags
	cmd := &cobra.Command{
		Use:   "metadata --from REPOSITORY",
		Short: "Make the data directories of the servers of a new cluster",
		Long: `metadata writes the metadata of a backup into the data directories of servers that have not started yet. The cluster file names the directories.
Run it on the host of each server with --server. Without --server it makes the directories of all servers here. It refuses a directory
that is not empty.

The cluster file must name the same regions as the backup, in the same order. The servers may be on other hosts.
etcd must have no description of the cluster: 'globalfs admin forget' deletes that of a lost cluster.`,
		Example: `  globalfs restore metadata --from /backups/prod --config cluster.yaml --server us-west-2a
  globalfs restore metadata --from /backups/prod --config cluster.yaml --backup 20261123T050000.000Z`,
		Args: noRestoreArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			file, err := readConfig(f.config)
			if err != nil {
				return err
			}
			plan, err := file.Plan()
			if err != nil {
				return err
			}
			dirs := map[string]string{}
			for _, name := range f.servers {
				if plan.Server(name) == nil {
					return command.InputError(fmt.Errorf("--server %s: the cluster file has no such server", name))
				}
				dirs[name] = filepath.Join(file.DataDir, name)
			}
			for _, s := range plan.Servers {
				if len(f.servers) == 0 {
					dirs[s.Name] = filepath.Join(file.DataDir, s.Name)
				}
			}
			return f.report(cmd, f.from, "is restored: start the servers, then run 'globalfs restore blocks'", func(r *backup.Repository, meter *progress.Meter) (*backup.Report, error) {
				mark := backup.Mark{File: daemon.RestoredFile, Incomplete: daemon.RestoreIncomplete, Added: daemon.RestoredPartitionsFile}
				return r.RestoreMetadata(cmd.Context(), f.id, file.Spec, dirs, mark, backup.Options{Progress: meter})
			})
		},
	}
	f.registerFrom(cmd)
	f.registerID(cmd)
	cmd.Flags().StringVar(&f.config, "config", "", "the cluster file (default: "+defaultConfigs+")")
	cmd.Flags().StringSliceVar(&f.servers, "server", nil, "servers with directories on this host (default: all)")
	return cmd
}

func newRestoreBlocks(logging *logFlags) *cobra.Command {
	f := restoreFlags{backupFlags: backupFlags{logging: logging}}
	cmd := &cobra.Command{
		Use:   "blocks --from REPOSITORY",
		Short: "Put the blocks of a backup into the storage of the new cluster",
		Long: `blocks copies the blocks of a backup into the storage of the cluster that was restored from it. The cluster must run. The cluster
knows its backup, also if the repository has newer ones. Until the command is done, files with missing blocks cannot be read.
You can repeat it: it does not copy blocks that are there.`,
		Example: `  globalfs restore blocks --from /backups/prod --config cluster.yaml`,
		Args:    noRestoreArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			logger, err := f.logging.logger()
			if err != nil {
				return err
			}
			c, err := openBackedUp(cmd.Context(), &f.access, logger)
			if err != nil {
				return err
			}
			defer func() { _ = c.close() }() // it only ends connections
			if f.id, err = restoredFrom(c.access.Restored(), f.id); err != nil {
				return err
			}
			return f.report(cmd, f.from, "has its blocks back", func(r *backup.Repository, meter *progress.Meter) (*backup.Report, error) {
				return r.RestoreBlocks(cmd.Context(), f.id, c, backup.Options{Progress: meter})
			})
		},
	}
	f.registerFrom(cmd)
	cmd.Flags().StringVar(&f.id, "backup", "", "id of the backup that the cluster was restored from; another one is refused (default: that one)")
	f.access.register(cmd)
	return cmd
}

// restoredFrom returns the id of the backup from which a cluster was restored. It fails if --backup names
// another one (wanted).
func restoredFrom(restored, wanted string) (string, error) {
	switch {
	case restored == "":
		return "", errors.New("the cluster was not restored from a backup: 'globalfs restore metadata' makes the directories of a new cluster")
	case wanted != "" && wanted != restored:
		return "", command.InputError(fmt.Errorf("--backup %s: the cluster was restored from backup %s: leave the flag out", wanted, restored))
	}
	return restored, nil
}

func (f *restoreFlags) registerFrom(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.from, "from", "", "the repository with the backup")
	_ = cmd.MarkFlagRequired("from") // the flag exists
	outputFlag(cmd, &f.output)
}

func noRestoreArguments(cmd *cobra.Command, args []string) error {
	if len(args) != 0 {
		return command.UsageError(errors.New(cmd.CommandPath() + ": give the repository with --from, and no arguments"))
	}
	return nil
}
