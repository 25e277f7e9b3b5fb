package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"text/tabwriter"
	"time"

	"github.com/globalfs/globalfs/internal/bench"
	"github.com/globalfs/globalfs/internal/command"
	"github.com/globalfs/globalfs/internal/dev"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/progress"
	"github.com/spf13/cobra"
)

func newBench(logging *logFlags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure the performance of a cluster",
		Long: `bench measures this file system. 'bench mount' measures existing directories. The other commands start a cluster in this process and end it
afterwards. Another program, globalfs-lab, measures the protocols by themselves and beside others.`,
		Example: `  globalfs bench mount --loopback /var/tmp /mnt/globalfs
  globalfs bench micro --clients 4 --duration 5s
  globalfs bench regions --regions-counts 3`,
	}
	command.Group(cmd)
	cmd.AddCommand(newBenchMount(), newBenchLoopback(), newBenchMicro(logging), newBenchRegions(logging), newBenchBlocks(), newBenchFile(logging))
	return cmd
}

// microFlags are the flags of `bench micro`.
type microFlags struct {
	cluster  clusterFlags
	clients  int
	duration time.Duration
	through  string
	output   command.Output
}

func newBenchMicro(logging *logFlags) *cobra.Command {
	var f microFlags
	cmd := &cobra.Command{
		Use:   "micro",
		Short: "Run the microbenchmarks of the thesis: read, write, create; local and global",
		Long: `micro starts an embedded cluster on an empty data directory. It measures reads and writes of 1 KB, the creation of a file, and the creation of a
file with 1 KB (thesis section 3.6.1), in the local partition of the first region and in the global partition. Each client starts an operation
when the last one has ended.`,
		Example: `  globalfs bench micro --clients 4 --duration 5s
  globalfs bench micro --through client --wan --output json`,
		Args: command.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd, logging) },
	}
	f.cluster.register(cmd)
	flags := cmd.Flags()
	flags.StringVar(&f.cluster.dir, "data-dir", "", "directory of the cluster's data, deleted at the end (default: a temporary directory)")
	flags.IntVar(&f.clients, "clients", 4, "number of clients in each measurement")
	command.DurationVar(flags, &f.duration, "duration", 5*time.Second, "duration of each measurement")
	flags.StringVar(&f.through, "through", "mount", "mount (as programs use it) or client (the client library, without the kernel)")
	command.Choice(cmd, flags, "through", "mount", "client")
	f.output.Register(cmd)
	return cmd
}

func (f *microFlags) validate() error {
	switch {
	case f.clients < 1:
		return fmt.Errorf("--clients %d: give at least 1", f.clients)
	case f.duration <= 0:
		return fmt.Errorf("--duration %v: give a positive duration", f.duration)
	}
	return nil
}

func (f *microFlags) run(cmd *cobra.Command, logging *logFlags) (err error) {
	if err := f.validate(); err != nil {
		return command.InputError(err)
	}
	logger, err := logging.logger()
	if err != nil {
		return err
	}
	work, err := os.MkdirTemp(f.cluster.dir, "globalfs-bench-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	f.cluster.dir = filepath.Join(work, "data")
	cfg, err := f.cluster.config(cmd, logger)
	if err != nil {
		return err
	}
	cluster, err := dev.Start(cmd.Context(), cfg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cluster.Close()) }()
	places, end, err := f.places(cmd.Context(), cluster, cfg, filepath.Join(work, "mount"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()
	var rows []bench.Measurement
	err = metered(cmd, func(meter *progress.Meter) (err error) {
		rows, err = bench.Micro(cmd.Context(), bench.Config{
			Clients: f.clients, Duration: f.duration, Places: places,
			Progress: steps(meter, len(bench.Operations(f.clients))*len(places)),
		})
		return err
	})
	r := command.Result{Name: "micro", Rows: rows, Table: func(out io.Writer) error { return printMeasurements(out, rows) }}
	return writeMeasured(cmd, &r, len(rows), f.output, "", err)
}

// places returns the two directories to measure, and the function that ends their use.
func (f *microFlags) places(ctx context.Context, cluster *dev.Cluster, cfg dev.Config, dir string) ([]bench.Place, func() error, error) {
	region := cfg.Spec.Regions[0]
	if f.through == "client" {
		c, err := cluster.Client(region)
		if err != nil {
			return nil, nil, err
		}
		local, err := bench.Dir(ctx, c.Client, cluster.Plan.Partitions[1].Root(), "bench")
		if err != nil {
			return nil, nil, errors.Join(err, c.Close())
		}
		global, err := bench.Dir(ctx, c.Client, posix.Root, "bench")
		if err != nil {
			return nil, nil, errors.Join(err, c.Close())
		}
		return []bench.Place{{Name: "local", Target: local}, {Name: "global", Target: global}}, c.Close, nil
	}
	m, err := mountAt(cluster, cfg, mountPoint{region: region, dir: dir})
	if err != nil {
		return nil, nil, err
	}
	local, global := filepath.Join(dir, string(region), "bench"), filepath.Join(dir, "bench")
	if err := errors.Join(os.Mkdir(local, 0o755), os.Mkdir(global, 0o755)); err != nil {
		return nil, nil, errors.Join(err, m.close())
	}
	return []bench.Place{{Name: "local", Target: bench.Directory(local)}, {Name: "global", Target: bench.Directory(global)}}, m.close, nil
}

func printMeasurements(out io.Writer, rows []bench.Measurement) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "operation\tplace\tclients\tops/s\tp50 us\tp95 us\tp99 us\tmax us\t")
	for _, r := range rows {
		fmt.Fprintf(w, "%s\t%s\t%d\t%.0f\t%.0f\t%.0f\t%.0f\t%.0f\t\n", r.Operation, r.Place, r.Clients, r.PerSecond, r.P50, r.P95, r.P99, r.Max)
	}
	return w.Flush()
}
