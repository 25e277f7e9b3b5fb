package lab

import (
	"github.com/spf13/cobra"

	"github.com/globalfs/globalfs/bench/packing"
	"github.com/globalfs/globalfs/internal/command"
)

func newPacking() *cobra.Command {
	c := packing.Default()
	var output command.Output
	var out string
	cmd := &cobra.Command{
		Use:   "packing",
		Short: "Message packing in six protocols for total order on an Ethernet, in virtual time",
		Long: `packing repeats the experiments of "Packing messages as a tool for boosting the performance of total ordering protocols" (Friedman and
van Renesse, 1995): bursts of one-byte messages on an Ethernet of 10 Mbit/s, from all of six processes (Figures 1 and 2) and from one
(Figures 3 and 4), with totem, tomfc, total, dynord, dynseq and dysfc.

Time is virtual and costs are stated, so the figures repeat exactly. Everything takes seconds.`,
		Example: `  globalfs-lab packing
  globalfs-lab packing --bursts 1,10,100 --protocols totem,tomfc --output json
  globalfs-lab packing --out bench/results`,
		Args: command.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := c.Validate(); err != nil {
				return command.InputError(err)
			}
			report, err := packing.Run(cmd.Context(), c)
			if err != nil {
				return command.Interrupted(cmd.Context(), err)
			}
			return emit(cmd, report, output.JSON(), out)
		},
	}
	flags := cmd.Flags()
	flags.IntSliceVar(&c.Bursts, "bursts", c.Bursts, "messages that a sender sends in a round")
	flags.StringSliceVar(&c.Protocols, "protocols", c.Protocols, "protocols to measure")
	flags.IntVar(&c.Processes, "processes", c.Processes, "processes on the Ethernet")
	flags.IntVar(&c.Rounds, "rounds", c.Rounds, "rounds of each measurement")
	flags.DurationVar(&c.SendCost, "send-cost", c.SendCost, "CPU time to send a packet")
	flags.DurationVar(&c.ReceiveCost, "receive-cost", c.ReceiveCost, "CPU time to receive a packet")
	flags.StringVar(&out, "out", "", "directory for packing.json, packing.txt and the figures (SVG)")
	output.Register(cmd)
	return cmd
}
