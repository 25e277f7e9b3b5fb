package cli

import (
	"errors"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/globalfs/globalfs/internal/client"
	"github.com/globalfs/globalfs/internal/command"
	"github.com/globalfs/globalfs/internal/daemon"
	"github.com/globalfs/globalfs/internal/progress"
	"github.com/globalfs/globalfs/internal/topology"
)

func newAdminAddPartition(logging *logFlags) *cobra.Command {
	f := adminFlags{logging: logging}
	var servers []string
	var wait bool
	cmd := f.register(&cobra.Command{
		Use:   "add-partition REGION",
		Short: "Give a region one more partition",
		Long: `add-partition gives a running region one more partition, over which its new directories spread from then on. REGION "global" is the level of
the directories outside of the regions. Existing directories stay where they are.
All servers must run: the new partition is used after all of them know it. A server that stops meanwhile delays that. A command that is repeated
meanwhile adds nothing. A partition cannot be removed again, and its number is never used for another one. Servers and mounts of older versions
do not know partitions that were added: update them before.`,
		Example: `  globalfs admin add-partition --wait us-west-2
  globalfs admin add-partition us-west-2 --on us-west-2d,us-west-2e,us-west-2f`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return command.UsageError(errors.New("admin add-partition: give one REGION"))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			region := topology.Region(args[0])
			if region == client.Global {
				region = ""
			}
			if wait {
				f.after = func(cmd *cobra.Command, a *daemon.Access, changed *daemon.Changed) error {
					return awaitSpread(cmd, a, region, changed.Version)
				}
			}
			return f.ask(cmd, "", &daemon.Request{Op: daemon.AddPartition, Region: region, Servers: servers}, "'globalfs status' shows when new directories go there")
		},
	})
	arguments(cmd, regionNames)
	cmd.Flags().StringSliceVar(&servers, "on", nil, "servers of the replicas (default: as many servers as the region's other partitions use, those with the fewest replicas)")
	flagValues(cmd, "on", serverNames)
	cmd.Flags().BoolVar(&wait, "wait", false, "return when new directories spread over the new partition")
	return cmd
}

// awaitSpread waits until the change of a version of the description is complete: no partition is being
// added, and all partitions of a region spread their new directories over all of them.
func awaitSpread(cmd *cobra.Command, a *daemon.Access, region topology.Region, version uint64) error {
	return metered(cmd, func(meter *progress.Meter) error {
		ctx := cmd.Context()
		ticker := time.NewTicker(statusEvery)
		defer ticker.Stop()
		for {
			answers := a.Status(ctx)
			plan := a.Cluster()
			h := daemon.Judge(a.Name(), answers, plan)
			shards := len(plan.Shards(region))
			pending := slices.ContainsFunc(h.Partitions, func(p daemon.PartitionHealth) bool { return p.Region == region && p.Spread < shards })
			if a.Version() >= version && plan.Adding() == nil && !pending {
				return nil
			}
			text := "the partitions of the region order it"
			if i := slices.IndexFunc(h.Problems, func(p daemon.Problem) bool { return p.Code == daemon.PartitionAdding }); i >= 0 {
				text = h.Problems[i].Text
			}
			meter.Begin("%s", text)
			select {
			case <-ticker.C:
			case <-ctx.Done():
				return errors.New("interrupted: the partition is added all the same: 'globalfs status' shows it")
			}
		}
	})
}
