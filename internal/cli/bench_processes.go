package cli

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

// processFlags are those of `bench processes`.
type processFlags struct {
	shapes      []string
	outstanding []int
	durability  string
	kill        string
	output      string
	config      process.Config
}

func newBenchProcesses() *cobra.Command {
	var f processFlags
	cmd := &cobra.Command{
		Use:   "processes",
		Short: "The atomic multicast in real processes, over gRPC on loopback",
		Long: `processes starts one process for each replica and measures the multicast alone, with closed-loop clients in
the processes of the groups' primaries: throughput, latency, CPU time of all replicas and memory, beside
what the Rust prototype of PrimCast took. At the end of each point all replicas must have delivered the same
messages in the same order, each once.`,
		Example: `  globalfs bench processes --shape b --outstanding 1024 --profile /tmp/profiles
  globalfs bench processes --shape a --outstanding 1024 --messages 10000000`,
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
	flags.StringVarP(&f.output, "output", "o", "table", "table or json")
	cmd.AddCommand(newBenchReplica())
	return cmd
}

// newBenchReplica is what `bench processes` starts for each replica.
func newBenchReplica() *cobra.Command {
	return &cobra.Command{
		Use:    "replica",
		Short:  "One replica, obeying orders on standard input",
		Hidden: true,
		Args:   command.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return process.Replica(cmd.Context(), cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
}

// measured is a point beside the prototype's.
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
	for _, shape := range process.Shapes() {
		for _, outstanding := range f.outstanding {
			if !slices.Contains(f.shapes, shape.Name) {
				continue
			}
			cfg := f.config
			cfg.Shape, cfg.Outstanding = shape, outstanding
			fmt.Fprintf(cmd.ErrOrStderr(), "(%s) %s, %d outstanding\n", shape.Name, shape.Description, outstanding)
			if f.kill != "" {
				death, err := process.Kill(cmd.Context(), cfg, f.kill)
				if err != nil {
					return fmt.Errorf("shape %s, %d outstanding, replica %d (%s) killed after %v: %w", shape.Name, outstanding, death.Victim, f.kill, death.KilledAfter, err)
				}
				deaths = append(deaths, death)
				continue
			}
			point, err := process.Run(cmd.Context(), cfg)
			if err != nil {
				return fmt.Errorf("shape %s, %d outstanding: %w", shape.Name, outstanding, err)
			}
			row := measured{Point: point}
			if r, ok := process.ReferenceOf(shape.Name, outstanding); ok {
				row.Reference = &r
			}
			rows = append(rows, row)
		}
	}
	if f.kill != "" {
		return printDeaths(cmd.OutOrStdout(), f.output, deaths)
	}
	return printPoints(cmd.OutOrStdout(), f.output, rows)
}

// prepare checks the flags and completes the configuration.
func (f *processFlags) prepare() error {
	for _, s := range f.shapes {
		if !slices.ContainsFunc(process.Shapes(), func(shape process.Shape) bool { return shape.Name == s }) {
			return command.InputError(fmt.Errorf("--shape %q: give a, b or c", s))
		}
	}
	for _, n := range f.outstanding {
		if n < 1 || n > process.MaxOutstanding {
			return command.InputError(fmt.Errorf("--outstanding %d: give 1 to %d", n, process.MaxOutstanding))
		}
	}
	switch {
	case f.config.Duration <= 0:
		return command.InputError(fmt.Errorf("--duration %v: give a positive duration", f.config.Duration))
	case f.config.Warmup < 0:
		return command.InputError(fmt.Errorf("--warmup %v: give 0 or a positive duration", f.config.Warmup))
	case f.config.Window < 1 || f.config.PackDelay < 0:
		return command.InputError(fmt.Errorf("--window %d, --pack-delay %v: give 1 or more, and 0 or more", f.config.Window, f.config.PackDelay))
	case f.config.Payload < 0 || f.config.Payload > 1<<20:
		return command.InputError(fmt.Errorf("--payload %d: give 0 to %d bytes", f.config.Payload, 1<<20))
	case f.output != "table" && f.output != "json":
		return command.InputError(fmt.Errorf("--output %q: give table or json", f.output))
	}
	if f.kill != "" {
		if !slices.Contains([]string{process.RolePrimary, process.RoleFollower, process.RoleSender}, f.kill) {
			return command.InputError(fmt.Errorf("--kill %q: give primary, follower or sender", f.kill))
		}
		if f.durability == "memory" {
			return command.InputError(fmt.Errorf("--kill needs a log that survives: give --durability os or sync"))
		}
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
	f.config.Program = []string{self, "bench", "processes", "replica"}
	return err
}

func printDeaths(out io.Writer, format string, rows []process.Death) error {
	if format == "json" {
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

func printPoints(out io.Writer, format string, rows []measured) error {
	if format == "json" {
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
