package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/globalfs/globalfs/internal/command"
	"github.com/globalfs/globalfs/internal/mount/mountpoint"
)

// kernelOptions are the options of -o, and those among them that the kernel enforces.
type kernelOptions struct {
	options []string
	flags   mountpoint.Flags
	remount bool // change the flags of a mount
}

// ignored are options of mount(8) and systemd without an effect here: atime never moves with reads, and the
// kernel checks permissions for all users.
var ignored = []string{
	"defaults", "auto", "noauto", "nofail", "_netdev", "user", "users", "nouser", "owner", "group", "async", "silent", "loud",
	"atime", "noatime", "diratime", "nodiratime", "relatime", "norelatime", "strictatime", "nostrictatime", "lazytime", "nolazytime",
	"allow_other", "default_permissions",
}

// setOptions sets the flags from the options of -o.
func (f *mountFlags) setOptions(cmd *cobra.Command) error {
	f.remount = slices.Contains(f.options, "remount")
	for _, o := range f.options {
		name, value, valued := strings.Cut(o, "=")
		switch {
		case f.flags.Set(o), f.remount, slices.Contains(ignored, name), strings.HasPrefix(name, "x-"), strings.HasPrefix(name, "comment"):
			continue
		case !valued:
			value = "true"
		}
		flag := cmd.Flags().Lookup(strings.ReplaceAll(name, "_", "-"))
		if flag == nil || flag.Name == "option" {
			return command.UsageError(fmt.Errorf("-o %s: there is no such option%s; see 'globalfs mount --help'", name, command.Suggest(name, optionNames(cmd))))
		}
		if err := cmd.Flags().Set(flag.Name, value); err != nil {
			return command.UsageError(fmt.Errorf("-o %s: %w", o, err))
		}
	}
	return nil
}

// optionNames returns the names of the mount options of this command.
func optionNames(cmd *cobra.Command) (names []string) {
	cmd.Flags().VisitAll(func(flag *pflag.Flag) { names = append(names, flag.Name) })
	return names
}

// changeFlags gives the mount at dir the flags of the options. The other flags stay. mount(8) also passes the
// options of /etc/fstab; those of GlobalFS cannot be changed without a new mount.
func (f *mountFlags) changeFlags(dir string) error {
	if err := checkMounted("-o remount", dir); err != nil {
		return err
	}
	flags, err := mountpoint.FlagsOf(dir)
	if err != nil {
		return err
	}
	for _, o := range f.options {
		flags.Set(o)
	}
	return mountpoint.Remount(dir, flags)
}
