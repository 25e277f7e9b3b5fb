package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"github.com/globalfs/globalfs/internal/collector"
	"github.com/globalfs/globalfs/internal/command"
	"github.com/globalfs/globalfs/internal/daemon"
	"github.com/globalfs/globalfs/internal/mount"
)

// gcFlags are the flags of `gc`.
type gcFlags struct {
	dryRun     bool
	grace      time.Duration
	graceGiven bool
	output     string
}

func newGC() *cobra.Command {
	var f gcFlags
	cmd := &cobra.Command{
		Use:   "gc MOUNTPOINT",
		Short: "Delete the blocks that no file needs any more, or count them",
		Long: `gc does at once the work that the servers do in the background. It deletes:

  dropped blocks  blocks of removed or overwritten content, once the grace period is over
  orphans         blocks that never became part of a file because a write failed, or that a server brought back after an absence

It also copies blocks to regions that were down when the blocks were written. With --dry-run it deletes nothing.
Bytes are those of one copy. The space on disk is free when the storage servers have compacted their segments.
Exit codes: 0 all partitions and regions were looked at, 1 some did not answer.`,
		Example: `  globalfs gc --dry-run ~/globalfs
  globalfs gc --grace 0s ~/globalfs
  globalfs gc -o json --dry-run ~/globalfs | jq '[.regions[].orphans.bytes] | add'`,
		Args: oneMountPoint,
		RunE: func(cmd *cobra.Command, args []string) error {
			f.graceGiven = cmd.Flags().Changed("grace")
			if f.dryRun && f.graceGiven {
				return command.UsageError(errors.New("gc: --grace says what is deleted, and --dry-run deletes nothing: give one of them"))
			}
			if f.grace < 0 {
				return command.InputError(fmt.Errorf("--grace %v: give a duration such as 10m, or 0s", f.grace))
			}
			return f.run(cmd, args[0])
		},
	}
	cmd.Flags().BoolVar(&f.dryRun, "dry-run", false, "only report the blocks, delete none")
	command.DurationVar(cmd.Flags(), &f.grace, "grace", 0, "how long an unused block is kept, for reads that began before (default: the grace period of the cluster)")
	cmd.Flags().Lookup("grace").DefValue = ""
	outputFlag(cmd, &f.output)
	return cmd
}

func (f *gcFlags) run(cmd *cobra.Command, path string) error {
	stop := showMounted(cmd, path, mount.XattrGCProgress, "looking at all blocks")
	report, err := f.collect(cmd.Context(), path)
	stop()
	if errors.Is(err, syscall.EBUSY) {
		return fmt.Errorf("%s: another command collects through this mount: wait for its end", path)
	}
	if err != nil {
		return forOperators(err)
	}
	if f.output == "json" {
		err = command.PrintJSON(cmd.OutOrStdout(), report)
	} else {
		err = printCollection(cmd.OutOrStdout(), &report, f.dryRun)
	}
	if err == nil && !report.Complete() {
		return errors.New("not all partitions and regions could be looked at: check that the servers run and can be reached, and try again")
	}
	return err
}

func (f *gcFlags) collect(ctx context.Context, path string) (report collector.Report, err error) {
	if f.dryRun {
		err = getJSON(ctx, path, mount.XattrGC, &report)
		return report, err
	}
	var grace []byte // empty: the grace time of the cluster
	if f.graceGiven {
		grace = []byte(f.grace.String())
	}
	if err = setControl(ctx, path, mount.XattrGC, grace); err == nil {
		err = getJSON(ctx, path, mount.XattrGCDone, &report)
	}
	return report, err
}

func printCollection(out io.Writer, r *collector.Report, dry bool) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	var failed []string
	last := "deleted"
	if dry {
		last = "to be deleted"
	}
	fmt.Fprintf(w, "partition\tlive blocks\tbytes\tdropped blocks\tbytes\t%s\tbytes\t\n", last)
	for _, p := range r.Partitions {
		done := p.Collected
		if dry {
			done = p.Due
		}
		fmt.Fprintf(w, "%d %s\t%d\t%s\t%d\t%s\t%d\t%s\t\n", p.ID, p.Path, p.Live.Blocks, size(p.Live.Bytes), p.Dropped.Blocks, size(p.Dropped.Bytes), done.Blocks, size(done.Bytes))
		if p.Error != "" {
			failed = append(failed, fmt.Sprintf("partition %d %s: %s", p.ID, p.Path, daemon.Plain(p.Error)))
		}
	}
	fmt.Fprintln(w, "\nregion\tblocks seen\torphans\tbytes\tmissed elsewhere\tbytes\tunchecked\t")
	for _, s := range r.Regions {
		fmt.Fprintf(w, "%s\t%d\t%d\t%s\t%d\t%s\t%d\t\n", s.Region, s.Seen, s.Orphans.Blocks, size(s.Orphans.Bytes), s.Brought.Blocks, size(s.Brought.Bytes), s.Unasked)
		if s.Error != "" {
			failed = append(failed, fmt.Sprintf("region %s: %s", s.Region, daemon.Plain(s.Error)))
		}
	}
	if len(failed) > 0 {
		fmt.Fprintf(w, "\n%s\n", strings.Join(failed, "\n"))
	}
	return w.Flush()
}

func oneMountPoint(cmd *cobra.Command, args []string) error {
	if len(args) != 1 {
		return command.UsageError(fmt.Errorf("%s: give one MOUNTPOINT", cmd.CommandPath()))
	}
	return nil
}

// forOperators explains a permission error of work on the whole cluster.
func forOperators(err error) error {
	if errors.Is(err, syscall.EPERM) {
		return fmt.Errorf("%w: only root, and the user who runs the mount, may", err)
	}
	return err
}

// size returns a number of bytes as text with a unit, such as 8.4 MiB.
func size(bytes uint64) string { return humanize.IBytes(bytes) }
