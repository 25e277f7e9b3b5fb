package lab

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/globalfs/globalfs/bench/onesided"
	"github.com/globalfs/globalfs/bench/ordering"
	"github.com/globalfs/globalfs/internal/command"
)

// tramFlags are the flags of `globalfs-lab tram`.
type tramFlags struct {
	quick  bool
	out    string
	output command.Output
	config onesided.Config
}

func newTram() *cobra.Command {
	f := tramFlags{config: onesided.Default()}
	cmd := &cobra.Command{
		Use:   "tram",
		Short: "TRAM on one-sided memory beside message passing, in virtual time",
		Long: `tram measures latency and throughput of TRAM, the tree-based atomic multicast over one-sided memory: 8 groups of 3 replicas
with a closed-loop client beside each, in three trees. Beside them are protocols that pass messages, with the same loads.

Time is virtual and prices are stated, so equal seeds give equal figures. Everything is in memory. The trees:

  base     a binary tree
  breadth  a root with all other groups below it
  depth    a chain

Everything takes about two minutes.`,
		Example: `  globalfs-lab tram --out bench/results
  globalfs-lab tram --quick
  globalfs-lab tram processes --kill
  globalfs-lab tram --trees breadth --destinations 1,8 --outstanding 1,4,16,64 --beside primcast --output json`,
		Args: command.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	flags, c := cmd.Flags(), &f.config
	flags.StringSliceVar(&c.Shapes, "trees", c.Shapes, "trees to measure")
	flags.StringSliceVar(&c.Beside, "beside", c.Beside, "protocols of globalfs-lab multicast to measure beside them")
	flags.IntSliceVar(&c.Destinations, "destinations", c.Destinations, "groups that a message goes to")
	flags.IntSliceVar(&c.Outstanding, "outstanding", c.Outstanding, "messages that each client has outstanding, ascending")
	flags.DurationVar(&c.Window, "duration", c.Window, "virtual time of each measurement of TRAM")
	flags.Uint64Var(&c.Seed, "seed", c.Seed, "of destinations and latencies")
	flags.IntVar(&c.Payload, "payload", c.Payload, "bytes of each message")
	flags.DurationVar(&c.Cost.Step, "step-cost", c.Cost.Step, "CPU time of a step: to look into the memory")
	flags.DurationVar(&c.Cost.Op, "op-cost", c.Cost.Op, "CPU time to post an operation, and to take a completion")
	flags.DurationVar(&c.Cost.LatencyMin, "latency-min", c.Cost.LatencyMin, "shortest time of an operation to its target, and back")
	flags.DurationVar(&c.Cost.LatencyMax, "latency-max", c.Cost.LatencyMax, "longest time of an operation to its target, and back")
	flags.BoolVar(&f.quick, "quick", false, "two loads, short: seconds")
	flags.StringVar(&f.out, "out", "", "directory for tram.json and tram.txt")
	f.output.Register(cmd)
	cmd.AddCommand(newTramProcesses())
	return cmd
}

func (f *tramFlags) run(cmd *cobra.Command) error {
	c := &f.config
	if _, err := ordering.Named(c.Beside); err != nil {
		return command.InputError(fmt.Errorf("--beside: %w", err))
	}
	if f.quick {
		c.Quick()
	}
	if err := c.Validate(); err != nil {
		return command.InputError(err)
	}
	c.Progress = stopwatch(cmd)
	report, err := onesided.Run(cmd.Context(), *c)
	if err != nil {
		return command.Interrupted(cmd.Context(), err)
	}
	return emit(cmd, report, f.output.JSON(), f.out)
}
