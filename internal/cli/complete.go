package cli

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/globalfs/globalfs/internal/identity"
	"github.com/globalfs/globalfs/internal/mount"
	"github.com/globalfs/globalfs/internal/topology"
)

// The shell completes names of regions, servers and partitions. They come from the cluster file or, for
// commands about a mounted tree, from the mount. No server is called. Without a file the shell has no values.

// completer returns the values of an argument or a flag.
type completer func(cmd *cobra.Command, args []string) []string

// arguments makes the shell complete the arguments of a command: each position by its completer, and further
// ones not at all.
func arguments(cmd *cobra.Command, positions ...completer) {
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) >= len(positions) {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return positions[len(args)](cmd, args), cobra.ShellCompDirectiveNoFileComp
	}
}

// flagValues makes the shell complete the values of a flag. Values of a list are separated by commas.
func flagValues(cmd *cobra.Command, flag string, values completer) {
	// It fails only for a flag that does not exist, or a second time.
	_ = cmd.RegisterFlagCompletionFunc(flag, func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		given := typed[:strings.LastIndexByte(typed, ',')+1]
		found := values(cmd, args)
		for i := range found {
			found[i] = given + found[i]
		}
		return found, cobra.ShellCompDirectiveNoFileComp
	})
}

// planOf returns the cluster of the file that --config names, or of the default one; nil: there is none.
func planOf(cmd *cobra.Command) *topology.Cluster {
	access := accessFlags{}
	if flag := cmd.Flags().Lookup("config"); flag != nil {
		access.config = flag.Value.String()
	}
	file, err := readConfig(access.path())
	if err != nil {
		return nil
	}
	plan, err := file.Plan()
	if err != nil {
		return nil
	}
	return plan
}

func serverNames(cmd *cobra.Command, _ []string) (names []string) {
	if plan := planOf(cmd); plan != nil {
		for _, s := range plan.Servers {
			names = append(names, s.Name)
		}
	}
	return names
}

func partitionNumbers(cmd *cobra.Command, _ []string) (numbers []string) {
	if plan := planOf(cmd); plan != nil {
		for _, p := range plan.Partitions {
			numbers = append(numbers, strconv.Itoa(int(p.ID))+"\t"+p.Path) // the text behind a tab is shown beside it
		}
	}
	return numbers
}

func regionNames(cmd *cobra.Command, _ []string) (names []string) {
	if plan := planOf(cmd); plan != nil {
		for _, r := range plan.Regions {
			names = append(names, string(r))
		}
	}
	return names
}

// completePatience is the maximum wait for a mount.
const completePatience = time.Second

// placeRegions returns the regions of the mount of the PATH or of the working directory, or those of the
// cluster file.
func placeRegions(cmd *cobra.Command, args []string) (names []string) {
	ctx, cancel := context.WithTimeout(cmd.Context(), completePatience)
	defer cancel()
	var regions []topology.Region
	if getJSON(ctx, pathOr(args), mount.XattrRegions, &regions) != nil {
		return append(regionNames(cmd, args), string(mount.Global))
	}
	for _, r := range regions {
		names = append(names, string(r))
	}
	return append(names, string(mount.Global))
}

// certificateNames returns the names of the certificates in the directory of --certs.
func certificateNames(c *certsChoice) completer {
	return func(*cobra.Command, []string) (names []string) {
		for _, role := range []identity.Role{identity.Admin, identity.Client} {
			names = append(names, c.namesOf(role)...)
		}
		return names
	}
}
