package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/globalfs/globalfs/internal/client"
	"github.com/globalfs/globalfs/internal/command"
	"github.com/globalfs/globalfs/internal/mount"
	"github.com/globalfs/globalfs/internal/mount/mountpoint"
	"github.com/globalfs/globalfs/internal/mount/serve"
)

func newInfo() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "info PATH...",
		Short: "Show the inode, the placement, the extents and the copies of files",
		Long: `info shows for each PATH on a mounted tree the inode, the partition with its replicas, and the reason of its placement. For a regular file it
also shows the extents, with the servers that have a copy of each block. It lists the first extents and counts all. Of a mount with
--delegate it also shows the directories that the mount holds, the changes that are not ordered yet, those that were lost, and the process
that has the log. For the place of an ended mount it names a process that still orders the changes of that mount.

It asks the storage servers for the copies. A mount with a certificate for some users only may not ask them, and does not show the holders.`,
		Example: `  globalfs info ~/globalfs/projects/plan.pdf
  globalfs info -o json ~/globalfs/projects/plan.pdf | jq '.[0].content.first_extents[].holders'`,
		Args: somePaths("info"),
		RunE: func(cmd *cobra.Command, args []string) error {
			found, err := infoAll(cmd.Context(), args)
			if output == "json" {
				return errors.Join(err, command.PrintJSON(cmd.OutOrStdout(), found))
			}
			return errors.Join(err, printInfo(cmd.OutOrStdout(), found))
		},
	}
	outputFlag(cmd, &output)
	return cmd
}

// somePaths refuses a command line without a PATH.
func somePaths(name string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) == 0 {
			return command.UsageError(fmt.Errorf("%s: give the PATH of a file or directory on a mounted tree", name))
		}
		return nil
	}
}

// described is the Info of a path.
type described struct {
	Path string `json:"path"`
	mount.Info
	Logs []serve.LogStatus `json:"log_holders,omitempty"` // of the mount, and of earlier ones at its place
}

// infoAll returns the Infos of all paths. It continues after a path that fails.
func infoAll(ctx context.Context, paths []string) ([]described, error) {
	found := []described{} // [] in JSON
	var errs []error
	for _, path := range paths {
		d := described{Path: path}
		if err := getJSON(ctx, path, mount.XattrInfo, &d.Info); err != nil {
			errs = append(errs, err)
			for _, l := range serve.Logs(ctx, path) {
				if l.Ends {
					errs = append(errs, fmt.Errorf("%s: process %d orders %d changes of an earlier mount, since %s", path, l.PID, l.Changes, l.Since.Local().Format(time.DateTime)))
				}
			}
			continue
		}
		if d.Holding != nil {
			d.Logs = logHolders(ctx, path)
		}
		found = append(found, d)
	}
	return found, errors.Join(errs...)
}

// logHolders returns the log holders at the mount point of a path.
func logHolders(ctx context.Context, path string) []serve.LogStatus {
	at, err := filepath.Abs(path)
	if err != nil {
		return nil
	}
	for ; ; at = filepath.Dir(at) {
		if there, ok := mountpoint.At(at); ok && there.Kind == mountpoint.FSType {
			return serve.Logs(ctx, at)
		}
		if at == filepath.Dir(at) {
			return nil
		}
	}
}

// kindOf returns the name of the type in a st_mode.
func kindOf(mode uint32) string {
	kinds := map[uint32]string{0x8000: "file", 0x4000: "directory", 0xa000: "symbolic link", 0x1000: "fifo", 0xc000: "socket", 0x2000: "character device", 0x6000: "block device"}
	return kinds[mode&0xf000]
}

func printInfo(out io.Writer, found []described) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for i := range found {
		d := &found[i]
		fmt.Fprintln(w, d.Path)
		fmt.Fprintf(w, "  inode\t%d (%s, %s, links: %d)\n", d.Inode, kindOf(d.Mode), fs.FileMode(d.Mode&0o777), d.Links)
		fmt.Fprintf(w, "  region\t%s (partition %d)\n", d.Region, d.Partition)
		fmt.Fprintf(w, "  why\t%s\n", d.Why)
		fmt.Fprintf(w, "  replicas\t%s\n", servers(&d.Where))
		if d.Rule != nil {
			fmt.Fprintf(w, "  rule\t%s\n", describeRule(d.Rule))
		}
		if d.Task != nil {
			fmt.Fprintf(w, "  moving\t%s\n", moveText(d.Task))
		}
		if c := d.Content; c != nil {
			fmt.Fprintf(w, "  size\t%s (%d bytes), %s used\n", size(d.Size), d.Size, size(d.Used))
			printContent(w, c, d.Copies)
		}
		if d.Holding != nil {
			printHolding(w, d.Holding)
		}
		for _, l := range d.Logs {
			what := "has the log of this mount"
			if l.Ends {
				what = fmt.Sprintf("orders %d changes of an earlier mount", l.Changes)
			}
			fmt.Fprintf(w, "  log\tprocess %d %s\n", l.PID, what)
		}
	}
	return w.Flush()
}

// printHolding prints what the mount holds exclusively, and what it has lost.
func printHolding(w io.Writer, h *client.Holding) {
	fmt.Fprintf(w, "  mount\t%d directories held, %d changes not ordered (%s, and blocks of %s to store), %d operations wait for them\n",
		h.Directories, h.Unordered, size(uint64(h.LogBytes)), size(uint64(h.BlockBytes)), h.Waiting)
	for _, l := range h.Losses {
		fmt.Fprintf(w, "  lost\t%s: %d changes of partition %d: %s: %s\n",
			l.When.Format(time.DateTime), l.Changes, l.Partition, l.Reason, strings.Join(l.Names, ", "))
	}
}

func printContent(w io.Writer, c *mount.Content, copies int) {
	atLeast := ""
	if !c.Complete {
		atLeast = "at least "
	}
	fmt.Fprintf(w, "  extents\t%s%d: %d in blocks, %s in the metadata, %s in holes\n", atLeast, c.Extents, c.Blocks, size(c.Inline), size(c.Holes))
	fmt.Fprintf(w, "  copies\t%d of each block in a region\n", copies)
	for _, e := range c.First {
		where := "in the metadata"
		if e.Block != "" {
			where = fmt.Sprintf("block %s", e.Block)
			if c.Unknown == "" || len(e.Holders) > 0 {
				where += " on " + orDash(strings.Join(e.Holders, ", "))
			}
		}
		fmt.Fprintf(w, "  at %d\t%s %s\n", e.Offset, size(e.Length), where)
	}
	if left := c.Extents - uint64(len(c.First)); left > 0 {
		fmt.Fprintf(w, "  ...\t%d more\n", left)
	}
	if c.Unknown != "" && c.Blocks > 0 {
		fmt.Fprintf(w, "  holders\tnot all known: %s\n", c.Unknown)
	}
}
