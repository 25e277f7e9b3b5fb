package lab

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/globalfs/globalfs/bench/carrier"
	"github.com/globalfs/globalfs/internal/command"
	"github.com/globalfs/globalfs/internal/topology"
)

// crossFlags are the flags of `globalfs-lab cross`.
type crossFlags struct {
	carriers []string
	regions  []string
	quick    bool
	out      string
	output   command.Output
	config   carrier.Config
}

func newCross() *cobra.Command {
	f := crossFlags{config: carrier.Default()}
	cmd := &cobra.Command{
		Use:   "cross",
		Short: "Carriers of commands of several partitions beside each other, in virtual time",
		Long: `cross measures rename and link over partitions with whole replicas in three regions, in virtual time, with three
carriers of the commands:

  classes    PrimCast in classes: messages with the same destinations have one order. The product uses it.
  one-order  PrimCast with one order for all messages, as in the thesis
  direct     no multicast: the asked replica sends the command to all replicas of all parties

The experiments:

  latency     one command at a time, from each party and from a region that is no party, in round trips of the slowest link
  contention  clients in two regions link the same files: commands a second, latency, attempts for each command
  cut         the last region is cut off while commands are under way from both sides: for how long files stay held, what
              the callers get, what local operations and commands of other parties notice
  cost        ordered messages, frames and bytes of one command
  shards      rename and link over two partitions of one region at the prices of server processes, on three media: by
              frames (the product's default), with TRAM as the order of each partition (tram), with all messages
              between replicas as one-sided writes, too (writes), and in the way of Heron (heron)

But for shards, replicas have no CPU and no disk in this model: the figures contain distances and waiting. Equal seeds
give equal figures. After a cut each answer is compared with the names: a command that failed must not have been executed.
Everything takes about two minutes.`,
		Example: `  globalfs-lab cross --out bench/results
  globalfs-lab cross --quick --experiments cut
  globalfs-lab cross --experiments shards --shard-clients 8
  globalfs-lab cross --carriers classes,direct --experiments contention --clients 64 --objects 16 --output json`,
		Args: command.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	flags, c := cmd.Flags(), &f.config
	for _, r := range c.Regions {
		f.regions = append(f.regions, string(r))
	}
	var names []string
	for _, x := range c.Carriers {
		names = append(names, x.Name)
	}
	flags.StringSliceVar(&f.carriers, "carriers", nil, "some of "+strings.Join(names, ", ")+"; default: all")
	flags.StringSliceVar(&c.Experiments, "experiments", c.Experiments, "experiments to run")
	flags.StringSliceVar(&f.regions, "regions", f.regions, "three regions; the last one is cut off")
	flags.IntVar(&c.Samples, "samples", c.Samples, "commands of each kind, for latency and cost")
	flags.IntSliceVar(&c.Clients, "clients", c.Clients, "numbers of clients, for contention")
	flags.IntSliceVar(&c.Objects, "objects", c.Objects, "numbers of files that the clients contend for")
	flags.DurationVar(&c.Duration, "duration", c.Duration, "virtual time of each measurement of contention")
	flags.IntVar(&c.InFlight, "in-flight", c.InFlight, "commands under way from each side when the region is cut off")
	flags.DurationVar(&c.Cut, "cut", c.Cut, "virtual time of the cut")
	flags.DurationVar(&c.Patience, "patience", c.Patience, "virtual time for which the callers of these commands wait")
	flags.IntVar(&c.ShardClients, "shard-clients", c.ShardClients, "clients of two shards under load")
	flags.DurationVar(&c.ShardWindow, "shard-window", c.ShardWindow, "virtual time of the load on two shards")
	flags.Uint64Var(&c.Seed, "seed", c.Seed, "of deviations, replicas asked, and files linked")
	flags.BoolVar(&f.quick, "quick", false, "few samples and clients, short: seconds")
	flags.StringVar(&f.out, "out", "", "directory for cross.json, cross.txt and the figure (SVG)")
	f.output.Register(cmd)
	return cmd
}

func (f *crossFlags) run(cmd *cobra.Command) (err error) {
	c := &f.config
	if c.Carriers, err = carrier.Named(f.carriers); err != nil {
		return command.InputError(fmt.Errorf("--carriers: %w", err))
	}
	c.Regions = nil
	for _, r := range f.regions {
		c.Regions = append(c.Regions, topology.Region(r))
	}
	if f.quick {
		c.Quick()
	}
	if err := c.Validate(); err != nil {
		return command.InputError(err)
	}
	c.Progress = stopwatch(cmd)
	report, err := carrier.Run(cmd.Context(), *c)
	if err != nil {
		return command.Interrupted(cmd.Context(), err)
	}
	return emit(cmd, report, f.output.JSON(), f.out)
}
