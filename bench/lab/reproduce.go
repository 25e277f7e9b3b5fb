package lab

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/globalfs/globalfs/bench/reproduce"
	"github.com/globalfs/globalfs/internal/command"
)

func newReproduce() *cobra.Command {
	o := reproduce.Options{Dir: "reproduced"}
	var output command.Output
	cmd := &cobra.Command{
		Use:   "reproduce",
		Short: "Repeat the experiments of the papers, and compare the outcome with their findings",
		Long: `reproduce repeats the experiments of the papers that GlobalFS is built on, in virtual time, and writes one report with a verdict for each
figure and table: report.md and index.html in the directory of --out, beside the tables and figures of each paper.

A paper that has ended is kept: after an interruption the same command goes on with the next paper. A new version of the program, or
--quick, measures all papers again. Everything takes about half an hour, with --quick one or two minutes.`,
		Example: `  globalfs-lab reproduce --out reproduced
  globalfs-lab reproduce --paper tram --paper heron --quick --out /tmp/quick`,
		Args: command.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.Validate(); err != nil {
				return command.InputError(err)
			}
			o.Version, o.Progress = command.Version(), stopwatch(cmd)
			report, err := reproduce.Run(cmd.Context(), o)
			if err != nil {
				return command.Interrupted(cmd.Context(), err)
			}
			if output.JSON() {
				return report.WriteJSON(cmd.OutOrStdout())
			}
			return report.WriteTable(cmd.OutOrStdout())
		},
	}
	flags := cmd.Flags()
	flags.StringSliceVar(&o.Papers, "paper", nil, "papers to reproduce: "+strings.Join(reproduce.Names(), ", ")+" (default all)")
	flags.StringSliceVar(&o.Compiled, "compiled", nil, "mount.json of 'globalfs-lab mount -- --measures untar,configure,make ... --out DIR' for Table 3.3 of the thesis, as bc=FILE or httpd=FILE")
	flags.BoolVar(&o.Quick, "quick", false, "short runs, which show shapes and no numbers")
	flags.StringVar(&o.Dir, "out", o.Dir, "directory of the report")
	output.Register(cmd)
	return cmd
}
