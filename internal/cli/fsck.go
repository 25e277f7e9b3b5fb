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
		Short: "Check that all metadata is consistent and that the blocks are there",
		Long: `fsck checks the metadata of every partition, the references between partitions, and that blocks can be read:
1000 of each partition, or all with --blocks. It changes nothing.

With a MOUNTPOINT it checks a running cluster through that mount. It reports problems that it finds twice in a row, because a
concurrent change is no error. A block counts as present if the mount has it in its cache.
With --data-dir it checks and compares all replicas of a stopped cluster: of 'globalfs dev', or of the servers whose data directories
are in DIR. Copy those of other hosts there: replicas that are not there are not checked. If commands of several partitions were under way, it prints notes about them.
Notes are no errors: start the cluster and check again.

Exit codes: 0 clean, 4 there are errors, 8 the check could not be made.`,
		Example: `  globalfs fsck ~/globalfs
  globalfs fsck --blocks --data-dir ~/.local/state/globalfs/dev
  globalfs fsck -o json ~/globalfs | jq -r '.problems[].what'`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) <= 1 && (len(args) == 1) != cmd.Flags().Changed("data-dir") {
				return nil
			}
			return command.UsageError(errors.New("fsck: give one MOUNTPOINT, or --data-dir DIR of a cluster that has stopped"))
		},
		RunE: f.run,
	}
	cmd.Flags().StringVar(&f.dir, "data-dir", "", "the data directory of a cluster that has stopped, or a directory with those of its servers")
	cmd.Flags().BoolVar(&f.blocks, "blocks", false, "look for all blocks, not only for some")
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
