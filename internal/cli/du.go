package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/globalfs/globalfs/internal/command"
	"github.com/globalfs/globalfs/internal/mount"
	"github.com/globalfs/globalfs/internal/progress"
)

// duFlags are the flags of du and summary.
type duFlags struct {
	output   string
	byRegion bool
	depth    int
	entries  int
}

func newDu() *cobra.Command {
	var f duFlags
	cmd := &cobra.Command{
		Use:   "du PATH...",
		Short: "Sum up the files and bytes of directories",
		Long: `du counts the files, directories and bytes of each PATH with all below it. USED is the space of one copy, without holes. SIZE is the sum of the
file sizes. It asks for several files at a time, so it is faster than du(1) if servers are far away. It counts inodes with several names
once, and leaves out other file systems below PATH.

With --by-region it asks for the region of each file, which takes longer.`,
		Example: `  globalfs du ~/globalfs/projects
  globalfs du --by-region ~/globalfs/projects ~/globalfs/home
  globalfs du -o json ~/globalfs/* | jq '.[] | {path, used}'`,
		Args: somePaths("du"),
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, args, printUsage) },
	}
	outputFlag(cmd, &f.output)
	cmd.Flags().BoolVar(&f.byRegion, "by-region", false, "also sum up the bytes by region")
	return cmd
}

func newSummary() *cobra.Command {
	var f duFlags
	cmd := &cobra.Command{
		Use:   "summary PATH",
		Short: "Show the largest directories and files below a directory",
		Long:  `summary shows the entries of PATH down to a depth, the largest first, each with the sum of all below it. It counts as 'globalfs du' does.`,
		Example: `  globalfs summary ~/globalfs/projects
  globalfs summary --depth 3 --entries 5 ~/globalfs
  globalfs summary -o json ~/globalfs | jq '.children[0].path'`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return command.UsageError(fmt.Errorf("summary takes one PATH, got %q", args))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.depth < 1 || f.entries < 1 {
				return command.InputError(fmt.Errorf("--depth %d, --entries %d: give positive numbers", f.depth, f.entries))
			}
			return f.run(cmd, args, func(out io.Writer, found []*usage) error { return printSummary(out, found, f.entries) })
		},
	}
	outputFlag(cmd, &f.output)
	cmd.Flags().IntVar(&f.depth, "depth", 2, "levels of directories that are shown")
	cmd.Flags().IntVar(&f.entries, "entries", 10, "entries that are shown of each directory")
	return cmd
}

// run sums up paths. It continues after a path that cannot be read.
func (f *duFlags) run(cmd *cobra.Command, paths []string, show func(io.Writer, []*usage) error) error {
	w := &walk{depth: f.depth}
	if f.byRegion {
		w.region = regionOf
	}
	stop := showProgress(cmd.Context(), cmd.ErrOrStderr(), func(context.Context) progress.State {
		return progress.State{Doing: "summing up", Unit: "inodes", Done: w.inodes.Load()}
	})
	found := []*usage{}
	var errs []error
	for _, path := range paths {
		u, err := w.of(cmd.Context(), path)
		if cmd.Context().Err() != nil {
			err = fmt.Errorf("%s: interrupted after %d inodes", path, w.inodes.Load())
		}
		errs = append(errs, err)
		if u != nil {
			found = append(found, u)
		}
	}
	stop()
	var err error
	switch {
	case f.output == "json" && f.depth > 0 && len(found) > 0:
		err = command.PrintJSON(cmd.OutOrStdout(), found[0])
	case f.output == "json":
		err = command.PrintJSON(cmd.OutOrStdout(), found)
	default:
		err = show(cmd.OutOrStdout(), found)
	}
	return errors.Join(append(errs, err)...)
}

// regionOf returns the region of a file.
func regionOf(ctx context.Context, path string) (string, error) {
	// The region of a symbolic link is that of its present or earlier directory; its target is another file.
	region, err := readControlOf(ctx, path, mount.XattrRegion)
	return string(region), explain(path, err)
}

// usageColumns is the first line of the tables of du and summary.
const usageColumns = "USED\tSIZE\tFILES\tDIRECTORIES\tPATH"

func printUsage(out io.Writer, found []*usage) error {
	if len(found) == 0 {
		return nil
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, usageColumns)
	for _, u := range found {
		fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%s\n", size(u.Used), size(u.Size), u.Files, u.Directories, u.Path)
		for _, region := range slices.Sorted(maps.Keys(u.Regions)) {
			fmt.Fprintf(w, "%s\t\t\t\t  in %s\n", size(u.Regions[region]), region)
		}
	}
	return w.Flush()
}

func printSummary(out io.Writer, found []*usage, entries int) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, u := range found {
		fmt.Fprintln(w, usageColumns)
		printTree(w, u, entries)
	}
	return w.Flush()
}

// printTree prints one entry, and the largest ones below it.
func printTree(w io.Writer, u *usage, entries int) {
	path := u.Path
	if u.directory {
		path += "/"
	}
	fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%s\n", size(u.Used), size(u.Size), u.Files, u.Directories, path)
	for _, child := range u.Children[:min(entries, len(u.Children))] {
		printTree(w, child, entries)
	}
	if len(u.Children) <= entries {
		return
	}
	var rest usage
	for _, child := range u.Children[entries:] {
		rest.add(child)
	}
	fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%s... %d more\n", size(rest.Used), size(rest.Size), rest.Files, rest.Directories, path, len(u.Children)-entries)
}
