package lab

import (
	"github.com/spf13/cobra"

	"github.com/globalfs/globalfs/bench/onesided"
	"github.com/globalfs/globalfs/internal/command"
)

// heronFlags are the flags of `globalfs-lab heron`.
type heronFlags struct {
	quick  bool
	out    string
	output command.Output
	config onesided.HeronConfig
}

func newHeron() *cobra.Command {
	f := heronFlags{config: onesided.DefaultHeron()}
	cmd := &cobra.Command{
		Use:   "heron",
		Short: "Heron, partitioned state machine replication on one-sided memory, with TPC-C in virtual time",
		Long: `heron repeats the experiments of the Heron paper (section V) with TPC-C: a partition of 3 replicas for each warehouse, ordered by TRAM.

  Figure 4   throughput of 1 to 16 warehouses: tram (order only), null (coordinate only), tpcc, local (no remote rows)
  Figure 5   its curves of Heron: throughput and latency of tpcc
  Figure 6   latency of new orders over 1 to 4 warehouses with one client, by stage
  Figure 7   latency of each transaction type
  Figure 8   time of a state transfer by size
  Table I    transactions that wait in phase 4 for the last replicas

Time is virtual and prices are stated, so equal seeds give equal figures. Everything is in memory. Everything takes about two minutes.`,
		Example: `  globalfs-lab heron --out bench/results
  globalfs-lab heron --quick
  globalfs-lab heron --warehouses 1,2,4 --clients 8 --output json`,
		Args: command.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	flags, c := cmd.Flags(), &f.config
	flags.IntSliceVar(&c.Warehouses, "warehouses", c.Warehouses, "numbers of warehouses to measure the throughput of")
	flags.IntVar(&c.Clients, "clients", c.Clients, "clients beside each replica, for throughput")
	flags.DurationVar(&c.Window, "duration", c.Window, "virtual time of each measurement")
	flags.DurationVar(&c.Patience, "patience", c.Patience, "how long a replica waits in phase 4 for those that are not in the quorum")
	flags.DurationVar(&c.Access, "access-cost", c.Access, "CPU time to read or to write a row")
	flags.DurationVar(&c.Cost.Step, "step-cost", c.Cost.Step, "CPU time of a step: to look into the memory")
	flags.DurationVar(&c.Cost.Op, "op-cost", c.Cost.Op, "CPU time to post an operation, and to take a completion")
	flags.Uint64Var(&c.Seed, "seed", c.Seed, "of transactions and latencies")
	flags.BoolVar(&f.quick, "quick", false, "up to 4 warehouses, short: seconds")
	flags.StringVar(&f.out, "out", "", "directory for heron.json and heron.txt")
	f.output.Register(cmd)
	return cmd
}

func (f *heronFlags) run(cmd *cobra.Command) error {
	c := &f.config
	if f.quick {
		c.Quick()
	}
	if err := c.Validate(); err != nil {
		return command.InputError(err)
	}
	c.Progress = stopwatch(cmd)
	report, err := onesided.RunHeron(cmd.Context(), *c)
	if err != nil {
		return command.Interrupted(cmd.Context(), err)
	}
	return emit(cmd, report, f.output.JSON(), f.out)
}
