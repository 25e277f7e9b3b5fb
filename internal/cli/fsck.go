package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/globalfs/globalfs/internal/attach"
	"github.com/globalfs/globalfs/internal/command"
	"github.com/globalfs/globalfs/internal/daemon"
	"github.com/globalfs/globalfs/internal/fsck"
	"github.com/globalfs/globalfs/internal/mount"
	"github.com/globalfs/globalfs/internal/progress"
	"github.com/globalfs/globalfs/internal/registry"
)

// Exit codes of `globalfs fsck`, the same as those of fsck(8).
const (
	exitProblems = 4 // the file system has errors
	exitUnable   = 8 // it could not be checked
)

// checkedBlocks is the number of blocks of each partition that are checked without --blocks.
const checkedBlocks = 1000

// fsckFlags are the flags of `fsck`.
type fsckFlags struct {
	dir    string
	blocks bool
	output string
}

func newFsck() *cobra.Command {
	var f fsckFlags
	cmd := &cobra.Command{
		Use:   "fsck (MOUNTPOINT | --data-dir DIR)",
		Short: "Check that all metadata is consistent and that blocks can be read",
		Long: `fsck checks the metadata of each partition and the references between partitions. Then it checks that the blocks of files can be read:
1000 blocks of each partition, or all blocks with --blocks. It repairs nothing and changes nothing.

With a MOUNTPOINT, fsck checks a running cluster through that mount. It checks twice and reports only the problems of both checks, because a
concurrent change can look like a problem. A block in the cache of the mount counts as readable.

With --data-dir, fsck checks a stopped cluster, and compares the replicas of each partition. DIR is the data directory of 'globalfs dev', or a
directory with the data directories of servers. Copy the data directories of other hosts into it: fsck checks only the replicas in DIR.
A cluster can stop while it executes a command of several partitions. fsck prints a note about such a command. A note is no error: start
the cluster and check again.

Exit codes: 0 no error, 4 errors, 8 the check failed.`,
		Example: `  globalfs fsck ~/globalfs
  globalfs fsck --blocks --data-dir ~/.local/state/globalfs/dev
  globalfs fsck -o json ~/globalfs | jq -r '.problems[].what'`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) <= 1 && (len(args) == 1) != cmd.Flags().Changed("data-dir") {
				return nil
			}
			return command.UsageError(errors.New("fsck: give one MOUNTPOINT, or --data-dir DIR of a stopped cluster"))
		},
		RunE: f.run,
	}
	cmd.Flags().StringVar(&f.dir, "data-dir", "", "the data directory of a stopped cluster, or a directory with the data directories of its servers")
	cmd.Flags().BoolVar(&f.blocks, "blocks", false, "check all blocks, not only 1000 of each partition")
	outputFlag(cmd, &f.output)
	return cmd
}

func (f *fsckFlags) run(cmd *cobra.Command, args []string) error {
	report, err := f.check(cmd, args)
	if err != nil {
		return command.StatusError(forOperators(err), exitUnable)
	}
	if f.output == "json" {
		err = command.PrintJSON(cmd.OutOrStdout(), report)
	} else {
		err = printReport(cmd.OutOrStdout(), &report)
	}
	if err == nil && !report.Sound() {
		return command.StatusError(errors.New("the file system has errors"), exitProblems)
	}
	return err
}

// check makes the report.
func (f *fsckFlags) check(cmd *cobra.Command, args []string) (report fsck.Report, err error) {
	if len(args) > 0 {
		return f.checkMounted(cmd, args[0])
	}
	o := fsck.Options{Blocks: checkedBlocks, Objects: attach.ExistingObjects}
	if f.blocks {
		o.Blocks = fsck.AllBlocks
	}
	err = metered(cmd, func(meter *progress.Meter) (err error) {
		o.Progress = meter
		report, err = f.checkStopped(cmd.Context(), o)
		return err
	})
	return report, err
}

// checkStopped checks the data directory of 'globalfs dev', or those of servers.
func (f *fsckFlags) checkStopped(ctx context.Context, o fsck.Options) (report fsck.Report, err error) {
	if _, err := os.Stat(filepath.Join(f.dir, registry.LocalFile)); err == nil || !daemon.HoldsServers(f.dir) {
		return fsck.Offline(ctx, f.dir, o)
	}
	servers, newest, unlock, err := daemon.ReadAllStopped([]string{f.dir})
	if err != nil {
		return report, err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	dirs := map[string]string{}
	for _, s := range servers {
		dirs[s.Name] = s.Dir
	}
	return fsck.Servers(ctx, newest.Plan, dirs, o)
}

// checkMounted has a mount check its cluster.
func (f *fsckFlags) checkMounted(cmd *cobra.Command, path string) (report fsck.Report, err error) {
	name := mount.XattrFsck
	if f.blocks {
		name = mount.XattrFsckBlocks
	}
	defer showMounted(cmd, path, mount.XattrFsckProgress, "checking the cluster")()
	err = getJSON(cmd.Context(), path, name, &report)
	if errors.Is(err, syscall.EBUSY) {
		err = fmt.Errorf("%s: another command checks the cluster through this mount: wait for its end", path)
	}
	return report, err
}

// showMounted shows the progress of work of a mount, which an attribute has. A mount of an older version does
// not have the attribute: the text is shown.
func showMounted(cmd *cobra.Command, path, attribute, text string) (stop func()) {
	return showProgress(cmd.Context(), cmd.ErrOrStderr(), func(ctx context.Context) progress.State {
		s := progress.State{}
		if err := getJSON(ctx, path, attribute, &s); err != nil || s.Doing == "" {
			s = progress.State{Doing: text}
		}
		s.Doing += " through " + path
		return s
	})
}

func printReport(out io.Writer, r *fsck.Report) error {
	for _, p := range r.Problems {
		fmt.Fprintln(out, p)
	}
	if r.LeftOut > 0 {
		fmt.Fprintf(out, "and %d more\n", r.LeftOut)
	}
	for _, n := range r.Notes {
		fmt.Fprintf(out, "note: %s\n", n)
	}
	if len(r.Problems) > 0 || len(r.Notes) > 0 {
		fmt.Fprintln(out)
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "partition\treplicas\tinodes\tentries\tblocks\tblocks checked\t")
	for _, p := range r.Partitions {
		fmt.Fprintf(w, "%d\t%d\t%d\t%d\t%d\t%d\t\n", p.ID, p.Replicas, p.Inodes, p.Entries, p.Blocks, p.Read)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if r.Sound() {
		fmt.Fprintln(out, "clean")
	}
	return nil
}
