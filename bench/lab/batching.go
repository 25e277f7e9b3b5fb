package lab

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/globalfs/globalfs/bench/batching"
	"github.com/globalfs/globalfs/internal/command"
)

func newBatching() *cobra.Command {
	o := batching.Options{}
	var output command.Output
	var out string
	cmd := &cobra.Command{
		Use:   "batching",
		Short: "Batching and pipelining: the paper's experiments, its model, and a simulated leader",
		Long: `batching repeats the experiments of "Optimizing Paxos with batching and pipelining" (Santos and Schiper, 2013) in virtual
time. It compares three sources for each row of the paper's Tables 3 and 4: the experiment that the paper prints, the analytical
model (pkg/batching), and a simulated leader with 1,200 clients. It also draws Figures 3, 7 and 8 from the simulated leader. A
second table compares fixed batches and windows with those of the model on replicas with the core of the product.

The costs of the CPU and of the network are those of the paper's machines and of a server. Equal durations give equal figures.
Everything takes about five minutes.`,
		Example: `  globalfs-lab batching --quick
  globalfs-lab batching --out bench/results`,
		Args: command.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.Duration < time.Second {
				return command.InputError(fmt.Errorf("--duration %s: at least 1s of virtual time is needed", o.Duration))
			}
			o.Progress = stopwatch(cmd)
			report, err := batching.Run(cmd.Context(), o)
			if err != nil {
				return command.Interrupted(cmd.Context(), err)
			}
			return emit(cmd, report, output.JSON(), out)
		},
	}
	cmd.Flags().DurationVar(&o.Duration, "duration", 30*time.Second, "virtual time of each point, at least 1s")
	cmd.Flags().BoolVar(&o.Quick, "quick", false, "Tables 3 and 4 and two rows of the comparison only")
	cmd.Flags().StringVar(&out, "out", "", "directory for batching.json, batching.txt and the figures (SVG)")
	output.Register(cmd)
	return cmd
}
