package cli

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/globalfs/globalfs/internal/command"
	"github.com/globalfs/globalfs/internal/mount"
	"github.com/globalfs/globalfs/internal/mount/mountpoint"
)

func newSync() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "sync [DIR]",
		Short: "Wait until all updates of a mount survive a loss of power",
		Long: `sync waits until all updates that the mount at DIR (default: the working directory) has written and seen are on the disks of a majority of the
servers of each partition. It does for a whole mount what fsync(2) does for a file. sync(1), sync(2) and syncfs(2) do not:
Linux does not pass them on to FUSE file systems of this kind.

Exit code 1: the updates may not be on disk. ETIMEDOUT: too few servers answer. EIO: a loss of power may have lost an update.`,
		Example: `  globalfs sync /mnt/globalfs
  cp -r project /mnt/globalfs/ && globalfs sync /mnt/globalfs && echo safe
  globalfs sync --output json /mnt/globalfs | jq .seconds`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return command.UsageError(fmt.Errorf("sync takes one DIR, got %q", args))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			synced, err := syncMount(cmd, pathOr(args))
			if err != nil {
				return err
			}
			if output == "json" {
				return command.PrintJSON(cmd.OutOrStdout(), synced)
			}
			return nil
		},
	}
	quietOutputFlag(cmd, &output)
	return cmd
}

// syncMount waits until the updates of the mount at path are on disk.
func syncMount(cmd *cobra.Command, path string) (synced mount.Synced, err error) {
	if err := mountpoint.WritePages(path); err != nil {
		return synced, explain(path, cause(err))
	}
	err = getJSON(cmd.Context(), path, mount.XattrSync, &synced)
	if errors.Is(err, syscall.EIO) {
		err = fmt.Errorf("%w: content may be gone that was written before: the log of the mount names files whose content could not be ordered, and 'globalfs status' shows servers that have lost power or have failing disks", err)
	}
	return synced, err
}
