package lab

import (
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/globalfs/globalfs/bench/process"
	"github.com/globalfs/globalfs/internal/command"
	"github.com/globalfs/globalfs/internal/wal"
	"github.com/globalfs/globalfs/pkg/multicast/primcast"
)

// processFlags are the flags of `globalfs-lab processes`.
type processFlags struct {
	shapes      []string
	outstanding []int
	durability  string
	kill        string
	output      command.Output
	config      process.Config
}

func newProcesses() *cobra.Command {
	var f processFlags
	cmd := &cobra.Command{
		Use:   "processes",
		Short: "The atomic multicast in real processes, over loopback",
		Long: `processes starts one process for each replica and measures the multicast alone, with closed-loop clients in
the processes of the groups' primaries: throughput, latency, CPU time of all replicas and memory, beside
what the Rust prototype of PrimCast took. At the end of each point all replicas must have delivered the same
messages in the same order, each once.`,
		Example: `  globalfs-lab processes --shape b --outstanding 1024 --profile /tmp/profiles
  globalfs-lab processes --shape a --outstanding 1024 --messages 10000000`,
		Args: command.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	flags, c := cmd.Flags(), &f.config
	flags.StringSliceVar(&f.shapes, "shape", []string{"a", "b", "c"}, "a: 1 group x 3; b: 2 groups x 3, every message to both; c: 4 groups x 3, each message to two")
	flags.IntSliceVar(&f.outstanding, "outstanding", []int{1, 16, 128, 1024}, "messages under way, over all clients")
	flags.DurationVar(&c.Duration, "duration", 6*time.Second, "of each measurement")
	flags.DurationVar(&c.Warmup, "warmup", 2*time.Second, "before each measurement")
	flags.Uint64Var(&c.Messages, "messages", 0, "measure until so many are delivered, instead of for a time")
	flags.IntVar(&c.Payload, "payload", 64, "bytes of each message")
	flags.IntVar(&c.Window, "window", primcast.DefaultWindow, "messages of one sender under way; further ones wait")
	flags.DurationVar(&c.PackDelay, "pack-delay", 0, "how long a message may wait for others to travel with")
	flags.StringVar(&f.durability, "durability", "memory", "what an acknowledgement survives: nothing (memory), the death of the process (os) or a power loss (sync)")
	flags.StringVar(&c.Dir, "data-dir", "", "where the replicas keep their logs, deleted at the end (default: the temporary directory)")
	flags.StringVar(&c.Profile, "profile", "", "directory for a CPU profile of each replica")
	flags.StringVar(&f.kill, "kill", "", "instead of measuring, kill the primary, a follower or a sender of the first group at a random moment of the duration, and start it again")
	flags.DurationVar(&c.Down, "down", 5*time.Second, "how long a killed replica stays away")
	f.output.Register(cmd)
	cmd.AddCommand(newReplica())
	return cmd
}

// newReplica makes the command that `globalfs-lab processes` starts for each replica.
func newReplica() *cobra.Command {
	return &cobra.Command{
		Use:    "replica",
		Short:  "One replica, obeying orders on standard input",
		Hidden: true,
		Long: `replica is what processes starts for each replica. It reads its configuration and its orders as JSON lines from standard
input, answers on standard output, and ends when its input does.`,
		Example: `  globalfs-lab processes --shape a --outstanding 1`,
		Args:    command.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return process.Replica(cmd.Context(), cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
}

// measured is a measured point with the prototype's point for comparison.
type measured struct {
	process.Point
	Reference *process.Reference `json:"prototype,omitempty"`
}

func (f *processFlags) run(cmd *cobra.Command) error {
	if err := f.prepare(); err != nil {
		return err
	}
	f.config.Progress = func(what string) { fmt.Fprintln(cmd.ErrOrStderr(), what) }
	var rows []measured
	var deaths []process.Death
	for _, cfg := range f.points() {
		fmt.Fprintf(cmd.ErrOrStderr(), "(%s) %s, %d outstanding\n", cfg.Shape.Name, cfg.Shape.Description, cfg.Outstanding)
		if f.kill != "" {
			death, err := process.Kill(cmd.Context(), cfg, f.kill)
			if err != nil {
				err = fmt.Errorf("shape %s, %d outstanding, replica %d (%s) killed after %v: %w",
					cfg.Shape.Name, cfg.Outstanding, death.Victim, f.kill, death.KilledAfter, err)
				return command.Interrupted(cmd.Context(), err)
			}
			deaths = append(deaths, death)
			continue
		}
		point, err := process.Run(cmd.Context(), cfg)
		if err != nil {
			return command.Interrupted(cmd.Context(), fmt.Errorf("shape %s, %d outstanding: %w", cfg.Shape.Name, cfg.Outstanding, err))
		}
		row := measured{Point: point}
		if r, ok := process.ReferenceOf(cfg.Shape.Name, cfg.Outstanding); ok {
			row.Reference = &r
		}
		rows = append(rows, row)
	}
	if f.kill != "" {
		return printDeaths(cmd.OutOrStdout(), f.output, deaths)
	}
	return printPoints(cmd.OutOrStdout(), f.output, rows)
}

// points returns the configurations to measure, in the order of the shapes.
func (f *processFlags) points() (all []process.Config) {
	for _, shape := range process.Shapes() {
		for _, outstanding := range f.outstanding {
			if slices.Contains(f.shapes, shape.Name) {
				cfg := f.config
				cfg.Shape, cfg.Outstanding = shape, outstanding
				all = append(all, cfg)
			}
		}
	}
	return all
}

// validate returns an error that names the flag with an invalid value.
func (f *processFlags) validate() error {
	for _, s := range f.shapes {
		if !slices.ContainsFunc(process.Shapes(), func(shape process.Shape) bool { return shape.Name == s }) {
			return fmt.Errorf("--shape %q: give a, b or c", s)
		}
	}
	for _, n := range f.outstanding {
		if n < 1 || n > process.MaxOutstanding {
			return fmt.Errorf("--outstanding %d: give 1 to %d", n, process.MaxOutstanding)
		}
	}
	switch c := &f.config; {
	case c.Duration <= 0:
		return fmt.Errorf("--duration %v: give a positive duration", c.Duration)
	case c.Warmup < 0:
		return fmt.Errorf("--warmup %v: give 0 or a positive duration", c.Warmup)
	case c.Window < 1 || c.PackDelay < 0:
		return fmt.Errorf("--window %d, --pack-delay %v: give 1 or more, and 0 or more", c.Window, c.PackDelay)
	case c.Payload < 0 || c.Payload > 1<<20:
		return fmt.Errorf("--payload %d: give 0 to %d bytes", c.Payload, 1<<20)
	case f.kill != "" && !slices.Contains([]string{process.RolePrimary, process.RoleFollower, process.RoleSender}, f.kill):
		return fmt.Errorf("--kill %q: give primary, follower or sender", f.kill)
	case f.kill != "" && f.durability == "memory":
		return fmt.Errorf("--kill needs a log that survives: give --durability os or sync")
	}
	return nil
}

// prepare checks the flags and completes the configuration.
func (f *processFlags) prepare() error {
	if err := f.validate(); err != nil {
		return command.InputError(err)
	}
	durability, ok := map[string]wal.Durability{"memory": wal.Memory, "os": wal.OS, "sync": wal.Sync}[f.durability]
	if !ok {
		return command.InputError(fmt.Errorf("--durability %q: give memory, os or sync", f.durability))
	}
	f.config.Durability = durability
	if f.config.Profile != "" {
		if err := os.MkdirAll(f.config.Profile, 0o755); err != nil {
			return err
		}
	}
	self, err := os.Executable()
	f.config.Program = []string{self, "processes", "replica"}
	return err
}

func printDeaths(out io.Writer, format command.Output, rows []process.Death) error {
	if format.JSON() {
		return command.PrintJSON(out, rows)
	}
	for _, d := range rows {
		fmt.Fprintf(out, "(%s) %d outstanding: %s %d killed after %v; messages delivered in each group, in one order and each once: %v\n",
			d.Shape, d.Outstanding, d.Role, d.Victim, d.KilledAfter.Round(time.Millisecond), d.Messages)
		fmt.Fprintf(out, "  longest gap in deliveries:")
		for _, p := range slices.Sorted(maps.Keys(d.Gaps)) {
			fmt.Fprintf(out, " %d: %v", p, d.Gaps[p].Round(time.Millisecond))
		}
		fmt.Fprintf(out, "\n  restarted and caught up in %v; %d of its messages under way were never multicast\n", d.CaughtUp.Round(time.Millisecond), d.Unknown)
	}
	return nil
}

func printPoints(out io.Writer, format command.Output, rows []measured) error {
	if format.JSON() {
		return command.PrintJSON(out, rows)
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "shape\toutstanding\tmsgs/s\tp50 us\tp95 us\tCPU s/10k\tMiB start\tMiB end\tRust msgs/s\tp50 us\tCPU s/10k\t")
	for _, r := range rows {
		fmt.Fprintf(w, "%s\t%d\t%.0f\t%d\t%d\t%.3f\t%d\t%d\t", r.Shape, r.Outstanding, r.PerSecond, r.P50, r.P95, r.CPU, r.RSSStart>>20, r.RSSEnd>>20)
		if r.Reference != nil {
			fmt.Fprintf(w, "%.0f\t%d\t%.3f\t\n", r.Reference.PerSecond, r.Reference.P50, r.Reference.CPU)
		} else {
			fmt.Fprint(w, "-\t-\t-\t\n")
		}
	}
	return w.Flush()
}
