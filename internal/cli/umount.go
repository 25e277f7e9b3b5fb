package cli

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/globalfs/globalfs/internal/command"
	"github.com/globalfs/globalfs/internal/mount/mountpoint"
)

func newUmount() *cobra.Command {
	var force bool
	var output string
	cmd := &cobra.Command{
		Use:   "umount DIR",
		Short: "Unmount a tree",
		Long: `umount waits as 'globalfs sync' does, then unmounts DIR, and the process that serves the mount ends. If programs use files there, umount
fails. With --force it does not wait, and these programs get errors.`,
		Example: `  globalfs umount /mnt/globalfs
  globalfs umount --force /mnt/globalfs`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return command.UsageError(fmt.Errorf("%s: give one DIR", cmd.CommandPath()))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			dir, err := filepath.Abs(args[0])
			if err != nil {
				return err
			}
			if there, ok := mountpoint.At(dir); ok && there.Kind == mountpoint.FSType && !force {
				if err := syncBefore(cmd, dir); err != nil {
					return err
				}
			}
			if err := mountpoint.Detach(dir, force); err != nil || output != "json" {
				return err
			}
			return command.PrintJSON(cmd.OutOrStdout(), map[string]string{"unmounted": dir})
		},
	}
	cmd.Flags().BoolVarP(&force, "force", "f", false, "unmount also if DIR is in use, or if the process that serves the mount does not answer")
	quietOutputFlag(cmd, &output)
	return cmd
}

// syncBefore waits before an unmount until the updates are on disk. It ignores the error of a mount with a
// dead program, or with one of a version without this wait.
func syncBefore(cmd *cobra.Command, dir string) error {
	_, err := syncMount(cmd, dir)
	if errors.Is(err, syscall.EIO) || errors.Is(err, syscall.ETIMEDOUT) || errors.Is(err, context.Canceled) {
		return fmt.Errorf("not unmounted: %w; --force unmounts all the same", err)
	}
	return nil
}
