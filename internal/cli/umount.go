package cli

import (
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/globalfs/globalfs/internal/command"
	"github.com/globalfs/globalfs/internal/mount/mountpoint"
)

func newUmount() *cobra.Command {
	var force bool
	cmd := &cobra.Command{
		Use:   "umount DIR",
		Short: "Unmount a tree",
		Long:  `umount unmounts DIR, and the process that serves it ends. If programs use files there it fails; with --force these get errors.`,
		Example: `  globalfs umount /mnt/globalfs
  globalfs umount --force /mnt/globalfs`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return command.UsageError(fmt.Errorf("%s: give one DIR", cmd.Name()))
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			dir, err := filepath.Abs(args[0])
			if err != nil {
				return err
			}
			return mountpoint.Detach(dir, force)
		},
	}
	cmd.Flags().BoolVarP(&force, "force", "f", false, "also if it is in use, or the process that serves it does not answer")
	return cmd
}
