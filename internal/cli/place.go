package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"syscall"

	"github.com/globalfs/globalfs/internal/command"
	"github.com/globalfs/globalfs/internal/mount"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/topology"
	"github.com/spf13/cobra"
)

// placeFlags select the action: one of region, spread, clear, list, pause and resume, or wait alone.
type placeFlags struct {
	region string
	spread []string
	clear  bool
	list   bool
	pause  bool
	resume bool

	noMove bool
	force  bool
	mkdir  bool
	wait   bool
	output string
}

func newPlace() *cobra.Command {
	var f placeFlags
	cmd := &cobra.Command{
		Use:   "place PATH",
		Short: "Choose the region of a directory and of its new entries",
		Long: `place gives a directory of a mounted tree a region. New entries are made in that region. Existing entries move there in the background,
unless you give --no-move. All files can be used meanwhile, and inode numbers do not change. Only the owner of the directory, or root, may
place it.

The root of the tree and those of the regions need --force: their rule affects all users, and a move brings all their contents.`,
		Example: `  globalfs place --region eu-west-1 --wait ~/globalfs/projects/eu
  globalfs place --region global ~/globalfs/shared
  globalfs place --spread us-west-2,us-east-1,eu-west-1 --mkdir ~/globalfs/scratch
  globalfs place --list ~/globalfs
  globalfs place --pause ~/globalfs/projects/eu`,
		Args: func(_ *cobra.Command, args []string) error { return f.check(args) },
		RunE: f.run,
	}
	flags := cmd.Flags()
	flags.StringVar(&f.region, "region", "", "keep the directory in this region, or in all of them: global")
	flags.StringSliceVar(&f.spread, "spread", nil, "spread new entries over these regions, by their names")
	flags.BoolVar(&f.clear, "clear", false, "remove the rule: new entries are kept where the directory is; nothing moves")
	flags.BoolVar(&f.list, "list", false, "list the placed directories, and the moves, of the whole tree that PATH (default: the working directory) is on")
	flags.BoolVar(&f.pause, "pause", false, "stop the move of the directory for now")
	flags.BoolVar(&f.resume, "resume", false, "continue the move of the directory")
	flags.BoolVar(&f.noMove, "no-move", false, "leave existing entries in their region")
	flags.BoolVar(&f.force, "force", false, "place / or the root of a region all the same")
	flags.BoolVar(&f.mkdir, "mkdir", false, "make the directory, and those above it, if it is missing")
	flags.BoolVar(&f.wait, "wait", false, "show the progress of the move until it is done; Ctrl-C ends the command, not the move")
	outputFlag(cmd, &f.output)
	flagValues(cmd, "region", placeRegions)
	flagValues(cmd, "spread", placeRegions)
	return cmd
}

// check refuses invalid combinations of flags.
func (f *placeFlags) check(args []string) error {
	places := f.region != "" || len(f.spread) > 0
	actions := 0
	for _, chosen := range []bool{f.region != "", len(f.spread) > 0, f.clear, f.list, f.pause, f.resume} {
		if chosen {
			actions++
		}
	}
	switch {
	case actions > 1 || actions == 0 && !f.wait:
		return command.UsageError(errors.New("place: give one of --region, --spread, --clear, --list, --pause, --resume and --wait; see 'globalfs place --help'"))
	case f.list && len(args) > 1 || !f.list && len(args) != 1:
		return command.UsageError(fmt.Errorf("place takes one PATH, after the values of its flags, got %q", args))
	case f.noMove && !places, f.mkdir && !places:
		return command.UsageError(errors.New("place: --no-move and --mkdir go with --region or --spread"))
	case f.wait && (f.noMove || f.clear || f.list || f.pause):
		return command.UsageError(errors.New("place: --wait goes with --region, --spread or --resume, or alone: nothing else moves anything"))
	}
	return nil
}

func (f *placeFlags) run(cmd *cobra.Command, args []string) error {
	ctx, path := cmd.Context(), pathOr(args)
	var err error
	switch {
	case f.list:
		return listPlacements(ctx, path, f.output, cmd.OutOrStdout())
	case f.pause:
		err = setTask(ctx, path, mount.TaskPause)
	case f.resume:
		err = setTask(ctx, path, mount.TaskResume)
	case f.clear || f.region != "" || len(f.spread) > 0:
		err = f.place(ctx, path)
	}
	if err != nil {
		return err
	}
	moved := &movedTree{Path: path}
	if f.wait {
		if moved, err = awaitMove(ctx, path, cmd.ErrOrStderr()); err != nil {
			return err
		}
	}
	switch {
	case f.output == "json":
		return command.PrintJSON(cmd.OutOrStdout(), moved)
	case f.wait:
		fmt.Fprintln(cmd.OutOrStdout(), moved)
	}
	return nil
}

// place makes the directory with --mkdir, and places it.
func (f *placeFlags) place(ctx context.Context, path string) error {
	wanted := mount.Place{Move: !f.noMove && !f.clear, Rule: mount.Rule{Region: topology.Region(f.region)}}
	for _, r := range f.spread {
		wanted.Spread = append(wanted.Spread, topology.Region(r))
	}
	if err := makeDirectory(ctx, path, f.mkdir); err != nil {
		return err
	}
	if err := checkRegions(ctx, path, wanted.Rule); err != nil {
		return err
	}
	if err := f.checkRoot(ctx, path); err != nil {
		return err
	}
	value, err := json.Marshal(wanted)
	if err != nil {
		return err
	}
	return mayPlace(setControl(ctx, path, mount.XattrPlace, value))
}

// checkRoot refuses the root of the tree, and the roots of regions, without --force.
func (f *placeFlags) checkRoot(ctx context.Context, path string) error {
	if f.force || f.clear {
		return nil
	}
	var where mount.Where
	if err := getJSON(ctx, path, mount.XattrWhere, &where); err != nil {
		return err
	}
	if posix.Ino(where.Inode).Counter() != posix.Root.Counter() {
		return nil
	}
	root := "the root of region " + string(where.Region)
	if where.Partition == 0 {
		root = "the root of the tree"
	}
	return command.InputError(fmt.Errorf("%s is %s: place a directory below it, or add --force: the rule then applies to the whole directory for all users, and its present content moves too (not with --no-move)", path, root))
}

// checkRegions refuses regions that the tree does not have.
func checkRegions(ctx context.Context, path string, rule mount.Rule) error {
	var regions []topology.Region
	if err := getJSON(ctx, path, mount.XattrRegions, &regions); err != nil {
		return err
	}
	for _, r := range append([]topology.Region{rule.Region}, rule.Spread...) {
		if r != "" && r != mount.Global && !slices.Contains(regions, r) {
			known := []string{string(mount.Global)}
			for _, k := range regions {
				known = append(known, string(k))
			}
			return command.InputError(fmt.Errorf("there is no region %q%s: give %s or %s", r, command.Suggest(string(r), known), join(regions), mount.Global))
		}
	}
	return nil
}

// setTask pauses or resumes a move.
func setTask(ctx context.Context, path, value string) error {
	if _, err := getControl(ctx, path, mount.XattrRegion); err != nil {
		return err
	}
	err := interruptibly(ctx, func() error { return syscall.Setxattr(path, mount.XattrTask, []byte(value), 0) })
	if errors.Is(err, syscall.ENODATA) {
		return fmt.Errorf("%s: nothing is being moved; 'globalfs place --list' shows what is", path)
	}
	return mayPlace(explain(path, err))
}

// mayPlace explains a permission error.
func mayPlace(err error) error {
	if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.EACCES) {
		return fmt.Errorf("%w: only the owner of the directory, or root, may place it", err)
	}
	return err
}
