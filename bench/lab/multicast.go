package lab

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/globalfs/globalfs/bench/ordering"
	"github.com/globalfs/globalfs/internal/command"
)

// multicastFlags are the flags of `globalfs-lab multicast`.
type multicastFlags struct {
	scenarios []string
	protocols []string
	quick     bool
	out       string
	output    command.Output
	config    ordering.Config
}

func newMulticast() *cobra.Command {
	f := multicastFlags{config: ordering.Default()}
	cmd := &cobra.Command{
		Use:   "multicast",
		Short: "The atomic multicast protocols beside each other, in virtual networks",
		Long: `multicast measures throughput and latency of atomic multicast protocols as the thesis does in section 4.5:
8 groups of 3 replicas with a closed-loop client beside each, in a LAN and two wide-area networks.

Time is virtual, what computing costs is real: each process has a CPU of its own, busy for as long as
its steps really take, plus a fixed price for each frame and for waking up. A curve of growing load ends
when more outstanding messages bring no more throughput. Everything takes about ten minutes.`,
		Example: `  globalfs-lab multicast --out bench/results
  globalfs-lab multicast --quick
  globalfs-lab multicast --scenario distributed --protocols primcast,primcast-hc --destinations 2 --output json`,
		Args: command.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	var names []string
	for _, p := range f.config.Protocols {
		names = append(names, p.Name)
	}
	flags, c := cmd.Flags(), &f.config
	flags.StringSliceVar(&f.scenarios, "scenario", nil, "lan, colocated or distributed (leaders); default: all")
	flags.StringSliceVar(&f.protocols, "protocols", nil, "some of "+strings.Join(names, ", ")+"; default: all")
	flags.IntSliceVar(&c.Destinations, "destinations", nil, "groups that a message goes to; default: those of the thesis")
	flags.IntSliceVar(&c.Outstanding, "outstanding", c.Outstanding, "messages that each client has outstanding, ascending")
	flags.DurationVar(&c.Window, "duration", 0, "virtual time of each measurement; default: 40ms in the LAN, 250ms or 300ms else, up to four times that at low load")
	flags.DurationVar(&c.Think, "think", 0, "mean time between a delivery and the client's next message; default: 10µs in the LAN, 10ms else")
	flags.Uint64Var(&c.Seed, "seed", c.Seed, "of destinations and deviations")
	flags.IntVar(&c.Payload, "payload", c.Payload, "bytes of each message")
	flags.DurationVar(&c.Cost.Frame, "frame-cost", c.Cost.Frame, "CPU time for each frame sent and each received")
	flags.DurationVar(&c.Cost.Wake, "wake-cost", c.Cost.Wake, "CPU time to wake a sleeping process up")
	flags.IntVar(&c.Cost.Bandwidth, "bandwidth", c.Cost.Bandwidth, "of each process's network interface, in bits a second; 0: no limit")
	flags.BoolVar(&c.Cost.Measured, "measure-cpu", c.Cost.Measured, "add what the steps really take; without, equal seeds give equal results")
	flags.DurationVar(&c.Skew, "clock-skew", c.Skew, "how far wall clocks are from true time at most")
	flags.BoolVar(&f.quick, "quick", false, "two loads, two destinations, short: seconds")
	flags.StringVar(&f.out, "out", "", "directory for results.json, results.txt and the figures (SVG)")
	f.output.Register(cmd)
	return cmd
}

func (f *multicastFlags) run(cmd *cobra.Command) error {
	c := &f.config
	var err error
	if c.Scenarios, err = ordering.ScenariosNamed(f.scenarios); err != nil {
		return command.InputError(fmt.Errorf("--scenario: %w", err))
	}
	if c.Protocols, err = ordering.Named(f.protocols); err != nil {
		return command.InputError(fmt.Errorf("--protocols: %w", err))
	}
	if f.quick {
		c.Quick()
	}
	if err := c.Validate(); err != nil {
		return command.InputError(err)
	}
	c.Progress = stopwatch(cmd)
	report, err := ordering.Run(cmd.Context(), *c)
	if cmd.Context().Err() != nil {
		err = fmt.Errorf("interrupted after %d points", len(report.Points))
	}
	if f.output.JSON() {
		err = errors.Join(err, report.WriteJSON(cmd.OutOrStdout()))
	} else {
		err = errors.Join(err, report.WriteTable(cmd.OutOrStdout()))
	}
	if err == nil && f.out != "" {
		err = report.WriteFiles(f.out)
	}
	return err
}
