package lab

import (
	"github.com/spf13/cobra"

	"github.com/globalfs/globalfs/bench/micro"
	"github.com/globalfs/globalfs/internal/command"
)

func newMicro() *cobra.Command {
	c := micro.Default()
	var quick bool
	var output command.Output
	var out string
	cmd := &cobra.Command{
		Use:   "micro",
		Short: "The thesis' microbenchmark on whole replicas in 1 to 9 regions, in virtual time",
		Long: `micro repeats the microbenchmark of the thesis (section 3.6.1): reading and writing 1 KB, creating a file, and creating one with 1 KB, in
the partition of a region and in the global one.

  Figure 3.4   highest throughput of each operation, and of local and global creations together, in 3 regions
  Figure 3.5   distribution of latencies at half of that throughput
  Figure 3.6   local operations in 1 to 9 regions: throughput of a region as a part of that of a region alone, and latency

The replicas and their orders are those of the product. A region has three servers and three mounts with two processors each, which are
busy for the CPU times of real processes. Caches of mounts are off, and each operation is ordered, as in the thesis. Time is virtual, so
equal seeds give equal figures. Everything takes some minutes.`,
		Example: `  globalfs-lab micro --out bench/results
  globalfs-lab micro --quick
  globalfs-lab micro --sizes 1,9 --clients 32 --output json`,
		Args: command.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if quick {
				c.Quick()
			}
			if err := c.Validate(); err != nil {
				return command.InputError(err)
			}
			c.Progress = stopwatch(cmd)
			report, err := micro.Run(cmd.Context(), c)
			if err != nil {
				return command.Interrupted(cmd.Context(), err)
			}
			return emit(cmd, report, output.JSON(), out)
		},
	}
	flags := cmd.Flags()
	flags.IntSliceVar(&c.Sizes, "sizes", c.Sizes, "numbers of regions for Figure 3.6; the first one is the reference")
	flags.IntSliceVar(&c.Clients, "clients", c.Clients, "clients of each mount, ascending, until the throughput grows no more")
	flags.DurationVar(&c.Window, "duration", c.Window, "virtual time of each measurement without distances")
	flags.DurationVar(&c.Far, "far-duration", c.Far, "virtual time of each measurement with global changes")
	flags.Uint64Var(&c.Seed, "seed", c.Seed, "of delays and arrivals")
	flags.BoolVar(&quick, "quick", false, "1 and 3 regions, short: seconds")
	flags.StringVar(&out, "out", "", "directory for micro.json, micro.txt and the figures (SVG)")
	output.Register(cmd)
	return cmd
}
