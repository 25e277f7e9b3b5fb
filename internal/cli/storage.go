package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/globalfs/globalfs/internal/command"
	"github.com/globalfs/globalfs/internal/mount"
	"github.com/globalfs/globalfs/internal/topology"
)

func newStorage() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "storage MOUNTPOINT",
		Short: "Show the servers that keep the blocks of each region, or change them",
		Long: `storage shows, for each region, the servers of its storage ring: how many blocks each one has, what repair has done in its last
round and since the server was started, and what the scrub has found. Missing copies are those that the last round found and made; lost
blocks are those of which no server of the region has a good copy.`,
		Example: `  globalfs storage ~/globalfs
  globalfs storage join ~/globalfs eu-west-1
  globalfs storage -o json ~/globalfs | jq '.[].servers[] | {name, blocks}'`,
		Args: oneMountPoint,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkOutput(output); err != nil {
				return err
			}
			regions, err := storageOf(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			if output == "json" {
				return command.PrintJSON(cmd.OutOrStdout(), regions)
			}
			return printStorage(cmd.OutOrStdout(), regions)
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "text", "text or json")
	cmd.AddCommand(newStorageJoin(), newStorageLeave())
	return cmd
}

func oneMountPoint(cmd *cobra.Command, args []string) error {
	if len(args) != 1 {
		return command.UsageError(fmt.Errorf("%s: give one MOUNTPOINT", cmd.Name()))
	}
	return nil
}

// storageOf gives the storage servers that a mount's cluster has.
func storageOf(ctx context.Context, path string) (regions []mount.StorageRegion, err error) {
	if err := getJSON(ctx, path, mount.XattrStorage, &regions); err != nil {
		return nil, forOperators(err)
	}
	if len(regions) == 0 {
		return nil, fmt.Errorf("%s: the blocks of this cluster are in object storage: it has no storage servers", path)
	}
	return regions, nil
}

// forOperators says who may ask for work of the whole cluster, if that was the reason.
func forOperators(err error) error {
	if errors.Is(err, syscall.EPERM) {
		return fmt.Errorf("%w: only root, and the user who runs the mount, may", err)
	}
	return err
}

func printStorage(out io.Writer, regions []mount.StorageRegion) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "server\tstate\tblocks\tlive\tdead\tmissing copies\tlost\tfetched\thanded back\tscrubbed\tcorrupt: fixed\tleft\t")
	for _, r := range regions {
		for _, s := range r.Servers {
			if s.Status == nil {
				fmt.Fprintf(w, "%s\tdown\t\t\t\t\t\t\t\t\t\t\t\n", s.Name)
				continue
			}
			repair, scrub := s.Status.Repair, s.Status.Scrub
			fmt.Fprintf(w, "%s\t%s\t%d\t%s\t%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t\n", s.Name, stateOf(&s), s.Blocks, size(s.Bytes), size(s.DeadBytes),
				repair.Last.Missing, repair.Last.Lost, repair.Fetched, repair.HandedBack, scrub.Blocks, scrub.Fixed, scrub.Unfixed)
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, r := range regions {
		for _, s := range r.Servers {
			if len(s.Down) > 0 {
				fmt.Fprintf(out, "%s does not hear %s\n", s.Name, strings.Join(s.Down, ", "))
			}
			if s.Status != nil && s.Status.Repair.Last.Error != "" {
				fmt.Fprintf(out, "%s: repair is not complete: %s\n", s.Name, s.Status.Repair.Last.Error)
			}
		}
	}
	return nil
}

func stateOf(s *mount.StorageServer) string {
	switch {
	case s.State != "":
		return s.State
	case s.Status.Repair.Last.FinishedAt.IsZero():
		return "starting" // it has not looked yet
	case !s.Status.Repair.Last.Complete:
		return "repairing"
	}
	return "ok"
}

// storageWait says whether a change of the storage servers is waited for.
type storageWait bool

func (w *storageWait) register(cmd *cobra.Command) {
	cmd.Flags().BoolVar((*bool)(w), "wait", false, "return when all blocks are where they belong")
}

func newStorageJoin() *cobra.Command {
	var wait storageWait
	cmd := &cobra.Command{
		Use:   "join MOUNTPOINT REGION",
		Short: "Start a new storage server in a region",
		Long: `join starts a storage server in a datacenter of its own, which gets its share of the region's blocks in the background. It prints
the server's name.`,
		Example: `  globalfs storage join --wait ~/globalfs eu-west-1`,
		Args:    twoArguments("a MOUNTPOINT and a REGION"),
		RunE: func(cmd *cobra.Command, args []string) error {
			before, err := storageOf(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			region := topology.Region(args[1])
			i := slices.IndexFunc(before, func(r mount.StorageRegion) bool { return r.Region == region })
			if i < 0 {
				return command.InputError(fmt.Errorf("there is no region %q", region))
			}
			after, err := changeStorage(cmd.Context(), args[0], mount.StorageChange{Join: region})
			if err != nil {
				return err
			}
			for _, s := range after[i].Servers {
				if !slices.ContainsFunc(before[i].Servers, func(old mount.StorageServer) bool { return old.Name == s.Name }) {
					fmt.Fprintln(cmd.OutOrStdout(), s.Name)
				}
			}
			return wait.until(cmd, args[0], region, whole)
		},
	}
	wait.register(cmd)
	return cmd
}

func newStorageLeave() *cobra.Command {
	var wait storageWait
	cmd := &cobra.Command{
		Use:   "leave MOUNTPOINT SERVER",
		Short: "Have a storage server hand its blocks to the others of its region, and leave",
		Long: `leave begins to drain a storage server: it owns no block any more, and hands what it has to the others, in the background. Once it
has nothing it is out of the ring. So many servers must stay as there are copies of a block.`,
		Example: `  globalfs storage leave --wait ~/globalfs eu-west-1d`,
		Args:    twoArguments("a MOUNTPOINT and a SERVER"),
		RunE: func(cmd *cobra.Command, args []string) error {
			before, err := storageOf(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			region, err := mayLeave(before, args[1])
			if err != nil {
				return command.InputError(err)
			}
			if _, err := changeStorage(cmd.Context(), args[0], mount.StorageChange{Leave: args[1]}); err != nil {
				return err
			}
			return wait.until(cmd, args[0], region, func(r *mount.StorageRegion) bool {
				return !slices.ContainsFunc(r.Servers, func(s mount.StorageServer) bool { return s.Name == args[1] })
			})
		},
	}
	wait.register(cmd)
	return cmd
}

func twoArguments(what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != 2 {
			return command.UsageError(fmt.Errorf("%s: give %s", cmd.Name(), what))
		}
		return nil
	}
}

// mayLeave gives the region of a server, or says why it cannot leave it.
func mayLeave(regions []mount.StorageRegion, server string) (topology.Region, error) {
	for _, r := range regions {
		staying := 0
		for _, s := range r.Servers {
			if s.State == "" {
				staying++
			}
		}
		for _, s := range r.Servers {
			switch {
			case s.Name != server:
			case s.State != "":
				return "", fmt.Errorf("server %q is %s already", server, s.State)
			case staying <= r.Copies:
				return "", fmt.Errorf("region %s has %d storage servers, and keeps %d copies of each block: let another server join before this one leaves", r.Region, staying, r.Copies)
			default:
				return r.Region, nil
			}
		}
	}
	return "", fmt.Errorf("there is no storage server %q", server)
}

// changeStorage asks for a change and gives the storage servers after it.
func changeStorage(ctx context.Context, path string, change mount.StorageChange) ([]mount.StorageRegion, error) {
	value, err := json.Marshal(change)
	if err != nil {
		return nil, err
	}
	if err := setControl(ctx, path, mount.XattrStorage, value); err != nil {
		return nil, fmt.Errorf("%w: the log of the mount says why; servers that 'globalfs server' runs are changed by 'globalfs admin'", err)
	}
	return storageOf(ctx, path)
}

// whole reports whether all servers of a region know of its last change, and have found and done nothing in a round of repair since.
func whole(r *mount.StorageRegion) bool {
	return !slices.ContainsFunc(r.Servers, func(s mount.StorageServer) bool {
		if s.Status == nil {
			return true
		}
		last := s.Status.Repair.Last
		return !last.Complete || last.Version != r.Version || last.Missing+last.Strays > 0
	})
}

// storageEvery is how often a change that is waited for is looked at.
const storageEvery = 500 * time.Millisecond

// until returns when done says so of a region, if it is to be waited for.
func (w *storageWait) until(cmd *cobra.Command, path string, region topology.Region, done func(*mount.StorageRegion) bool) error {
	if !*w {
		return nil
	}
	n := newNarrator(cmd.ErrOrStderr())
	defer n.stop()
	ticker := time.NewTicker(storageEvery)
	defer ticker.Stop()
	for {
		regions, err := storageOf(cmd.Context(), path)
		if err != nil {
			return err
		}
		i := slices.IndexFunc(regions, func(r mount.StorageRegion) bool { return r.Region == region })
		if i < 0 {
			return errors.New("the region is gone")
		}
		if done(&regions[i]) {
			return lostBlocks(&regions[i])
		}
		n.say(movedSoFar(&regions[i]))
		select {
		case <-ticker.C:
		case <-cmd.Context().Done():
			return cmd.Context().Err()
		}
	}
}

// lostBlocks is an error if there are blocks that nobody can bring back.
func lostBlocks(r *mount.StorageRegion) error {
	lost := uint64(0)
	for _, s := range r.Servers {
		if s.Status != nil {
			lost = max(lost, s.Status.Repair.Last.Lost)
		}
	}
	if lost > 0 {
		return fmt.Errorf("region %s is as asked for, but %d blocks have no good copy there: the logs of its servers name them", r.Region, lost)
	}
	return nil
}

// movedSoFar tells how far repair is.
func movedSoFar(r *mount.StorageRegion) string {
	var moved, left uint64
	for _, s := range r.Servers {
		if s.Status != nil {
			moved += s.Status.Repair.Fetched + s.Status.Repair.HandedBack
			left += s.Status.Repair.Last.Strays
		}
	}
	return fmt.Sprintf("repair in %s: %d copies made since the servers were started, %d blocks not where they belong at the last look", r.Region, moved, left)
}
