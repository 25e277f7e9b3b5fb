package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/globalfs/globalfs/internal/bench"
	"github.com/globalfs/globalfs/internal/client"
	"github.com/globalfs/globalfs/internal/command"
	"github.com/globalfs/globalfs/internal/dev"
	"github.com/globalfs/globalfs/internal/progress"
	"github.com/globalfs/globalfs/internal/topology"
	"github.com/globalfs/globalfs/internal/wal"
)

// thesisRegions are the regions of the thesis' deployments, which have the first 1, 3, 6 and 9 of them.
var thesisRegions = []topology.Region{
	"us-west-2", "us-east-1", "eu-west-1", "us-west-1", "eu-central-1", "ap-northeast-1", "ap-southeast-1", "ap-southeast-2", "sa-east-1",
}

type regionsFlags struct {
	counts   []int
	duration time.Duration
	slice    time.Duration
	cycles   int
	output   command.Output
	out      string
}

func newBenchRegions(logging *logFlags) *cobra.Command {
	var f regionsFlags
	cmd := &cobra.Command{
		Use:   "regions",
		Short: "Measure latencies with 1 to 9 regions: local, global, and between two partitions",
		Long: `regions starts embedded clusters of the regions of the thesis (section 3.6.1), in memory, with the delays between the regions. It measures the
operations of one client in the first region:

  local           alone; beside a client that renames between two regions without pause; while another region is cut off; and alone
                  again, to show the noise of the machine
  global          in the global partition
  two partitions  operations of two partitions

A client in the region farthest from the first measures the last two as well.`,
		Example: `  globalfs bench regions
  globalfs bench regions --regions-counts 3 --duration 10s --output json
  globalfs bench regions --out bench/results`,
		Args: command.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd, logging) },
	}
	flags := cmd.Flags()
	flags.IntSliceVar(&f.counts, "regions-counts", []int{1, 3, 6, 9}, "numbers of regions, 1 to 9: a cluster for each number")
	command.DurationVar(flags, &f.duration, "duration", 2*time.Second, "duration of each operation over the network between regions")
	command.DurationVar(flags, &f.slice, "slice", 100*time.Millisecond, "duration of each operation inside a region; of a local operation in each condition and cycle")
	flags.IntVar(&f.cycles, "cycles", 10, "number of cycles over the conditions of local operations")
	f.output.Register(cmd)
	flags.StringVar(&f.out, "out", "", "directory for regions.txt and regions.json as well")
	return cmd
}

func (f *regionsFlags) validate() error {
	for _, n := range f.counts {
		if n < 1 || n > len(thesisRegions) {
			return fmt.Errorf("--regions-counts %d: give 1 to %d", n, len(thesisRegions))
		}
	}
	switch {
	case f.duration <= 0:
		return fmt.Errorf("--duration %v: give a positive duration", f.duration)
	case f.slice <= 0:
		return fmt.Errorf("--slice %v: give a positive duration", f.slice)
	case f.cycles < 1:
		return fmt.Errorf("--cycles %d: give at least 1", f.cycles)
	}
	return nil
}

func (f *regionsFlags) run(cmd *cobra.Command, logging *logFlags) (err error) {
	if err := f.validate(); err != nil {
		return command.InputError(err)
	}
	logger, err := logging.logger()
	if err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "globalfs-bench-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	var rows []bench.RegionsRow
	err = metered(cmd, func(meter *progress.Meter) (err error) {
		rows, err = f.measureAll(cmd.Context(), work, logger, steps(meter, 0))
		return err
	})
	r := command.Result{Name: "regions", Rows: rows, Table: func(out io.Writer) error { return printRegions(out, rows) }}
	return writeMeasured(cmd, &r, len(rows), f.output, f.out, err)
}

// measureAll runs all clusters, and calls step with the name of each measurement. After an error it returns
// the rows of the complete clusters.
func (f *regionsFlags) measureAll(ctx context.Context, work string, logger *slog.Logger, step func(string)) (rows []bench.RegionsRow, err error) {
	for i, n := range f.counts {
		cfg := dev.Config{
			Spec: topology.DefaultSpec(), Dir: filepath.Join(work, fmt.Sprint(i)), WAN: true,
			Durability: wal.Memory, Timeout: client.DefaultTimeout, Logger: logger,
		}
		cfg.Spec.Regions = thesisRegions[:n]
		more, err := f.measure(ctx, cfg, step)
		if err != nil {
			return rows, fmt.Errorf("%d regions: %w", n, err)
		}
		rows = append(rows, more...)
	}
	return rows, nil
}

// measure runs one cluster.
func (f *regionsFlags) measure(ctx context.Context, cfg dev.Config, progress func(string)) (rows []bench.RegionsRow, err error) {
	cluster, err := dev.Start(ctx, cfg)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, cluster.Close()) }()
	w := &bench.World{Regions: cfg.Spec.Regions, Clients: map[topology.Region]*client.Client{}, Cut: cluster.Cut}
	for _, r := range w.Regions {
		c, err := cluster.Client(r)
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, c.Close()) }()
		w.Clients[r] = c.Client
	}
	return bench.Regions(ctx, bench.RegionsConfig{Duration: f.duration, Slice: f.slice, Cycles: f.cycles, Progress: progress}, w)
}

func printRegions(out io.Writer, rows []bench.RegionsRow) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "regions\tclient\toperation\tplace\tcondition\tops/s\tp50 us\tp95 us\tp50 ratio\tp95 ratio\t")
	for _, r := range rows {
		fmt.Fprintf(w, "%d\t%s\t%s\t%s\t%s\t%.0f\t%.0f\t%.0f\t%s\t%s\t\n",
			r.Regions, r.Client, r.Operation, r.Place, r.Condition, r.PerSecond, r.P50, r.P95, ratio(r.Ratio50), ratio(r.Ratio95))
	}
	return w.Flush()
}

// ratio formats a ratio; empty: there is no value to compare with.
func ratio(r float64) string {
	if r == 0 {
		return ""
	}
	return fmt.Sprintf("%.2f", r)
}
