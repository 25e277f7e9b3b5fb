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
	"github.com/globalfs/globalfs/internal/mount"
	"github.com/globalfs/globalfs/internal/progress"
	"github.com/globalfs/globalfs/internal/topology"
	"github.com/globalfs/globalfs/internal/wal"
)

// fileFlags are the flags of `bench file`.
type fileFlags struct {
	config     bench.FileConfig
	copies     int
	transport  string
	durability []string
	dir        string
	profiler   string
	output     command.Output
	out        string
}

func newBenchFile(logging *logFlags) *cobra.Command {
	var f fileFlags
	cmd := &cobra.Command{
		Use:   "file",
		Short: "Measure a large file and small ones through a mount, beside go-fuse's loopback file system",
		Long: `file starts an embedded cluster of one region with three datacenters and mounts it. It measures writing and reading a large file in pieces of
1 MiB, and making small files. In turns with it, it measures go-fuse's loopback file system, which shows a directory of the same disk through
FUSE. Loopback is mounted in three ways:

  loopback     with the options of its example
  tuned        with larger requests, and reading as far ahead as mounts of GlobalFS do
  passthrough  the kernel passes requests on to the disk, and no byte reaches a process (needs root and Linux 6.9)

Before each measurement the disk has written all earlier data. With durability os no write waits for fsync: the data survives the end of the
process. With sync the program calls fsync before it closes a file: loopback writes to the disk during this call, and GlobalFS has written before it.

Conditions of a read:

  kernel has it       the file is read a second time from the same descriptor: FUSE is not asked
  file system has it  the kernel has dropped its pages of the mount. The client of GlobalFS has read the file before, and its cache is
                      large enough for it. Under loopback the kernel has the pages of the file below
  servers have it     the client of GlobalFS is new, has a cache of the usual size, and asks the storage servers. The kernel has their files in
                      memory, as those below loopback
  on disk             the same, and the kernel has dropped the pages of all files below both mounts

The ratio is the rate of GlobalFS relative to the rate of the other file system: the median over the rounds. The ratio of the disk compares
the bytes that the process wrote to the disk. GlobalFS writes each byte as often as there are copies.`,
		Example: `  globalfs bench file
  globalfs bench file --size 268435456 --copies 1 --durability sync --output json
  globalfs bench file --durability os,sync --out bench/results`,
		Args: command.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd, logging) },
	}
	flags := cmd.Flags()
	flags.Int64Var(&f.config.Size, "size", 1<<30, "size of the large file, in bytes: a multiple of 1048576")
	flags.IntSliceVar(&f.config.Small, "small", []int{4 << 10, 64 << 10}, "sizes of small files, in bytes")
	command.DurationVar(flags, &f.config.Duration, "duration", time.Second, "duration of the creation of small files of one size, in each round")
	flags.IntVar(&f.config.Rounds, "rounds", 3, "number of rounds of all measurements")
	flags.IntVar(&f.copies, "copies", 3, "number of copies of each block: 1 to 3")
	flags.StringVar(&f.transport, "transport", "inprocess", "between the servers: inprocess (queues in memory) or grpc (TLS over loopback; named after an earlier protocol)")
	flags.StringSliceVar(&f.durability, "durability", []string{"os"}, "durability of a write: os (the end of the process), sync (also a loss of power); or both")
	flags.StringVar(&f.dir, "data-dir", "", "directory of the cluster's data and of the files below loopback, deleted at the end (default: a temporary directory)")
	flags.StringVar(&f.profiler, "pprof", "", "serve Go's profiler at this loopback address, such as 127.0.0.1:6060")
	command.Choice(cmd, flags, "transport", "inprocess", "grpc")
	command.Choice(cmd, flags, "durability", "os", "sync")
	f.output.Register(cmd)
	flags.StringVar(&f.out, "out", "", "directory for file.txt and file.json as well")
	return cmd
}

func (f *fileFlags) validate() error {
	if f.copies < 1 || f.copies > 3 {
		return fmt.Errorf("--copies %d: give 1 to 3", f.copies)
	}
	return f.config.Validate()
}

func (f *fileFlags) run(cmd *cobra.Command, logging *logFlags) (err error) {
	if err := f.validate(); err != nil {
		return command.InputError(err)
	}
	logger, err := logging.logger()
	if err != nil {
		return err
	}
	stop, err := serveProfiles(f.profiler)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	var rows []bench.FileRow
	err = metered(cmd, func(meter *progress.Meter) error {
		step := steps(meter, len(f.durability)*f.config.Steps())
		for _, durability := range f.durability {
			cfg := f.config
			cfg.Sync = durability == "sync"
			cfg.Progress = func(what string) { step(durability + ": " + what) }
			more, err := f.measure(cmd.Context(), cfg, logger)
			if err != nil {
				return err
			}
			rows = append(rows, more...)
		}
		return nil
	})
	r := command.Result{Name: "file", Rows: rows, Table: func(out io.Writer) error { return printFiles(out, rows) }}
	return writeMeasured(cmd, &r, len(rows), f.output, f.out, err)
}

// measure runs one cluster beside the loopback mounts.
func (f *fileFlags) measure(ctx context.Context, cfg bench.FileConfig, logger *slog.Logger) (rows []bench.FileRow, err error) {
	work, err := os.MkdirTemp(f.dir, "globalfs-bench-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	ours, closeOurs, err := f.startCluster(ctx, work, cfg.Sync, logger)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, closeOurs()) }()
	cfg.Contenders = append(cfg.Contenders, ours)
	for _, way := range []struct {
		name               string
		tuned, passthrough bool
	}{{name: "loopback"}, {name: "tuned", tuned: true}, {name: "passthrough", passthrough: true}} {
		l := mount.Loopback{Backing: filepath.Join(work, way.name), Dir: filepath.Join(work, way.name+"-mount"), Tuned: way.tuned, Passthrough: way.passthrough}
		other, close, err := loopback(&l, way.name)
		if errors.Is(err, mount.ErrNoPassthrough) {
			logger.Info("not measured", "file system", way.name, "reason", err)
			continue
		}
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, close()) }()
		cfg.Contenders = append(cfg.Contenders, other)
	}
	if rows, err = bench.Files(ctx, cfg); err != nil {
		return nil, err
	}
	for i := range rows {
		rows[i].Copies = f.copies
	}
	return rows, nil
}

// startCluster starts an embedded cluster and mounts it.
func (f *fileFlags) startCluster(ctx context.Context, work string, sync bool, logger *slog.Logger) (_ *bench.Contender, close func() error, err error) {
	spec := topology.Spec{Regions: []topology.Region{"us-west-2"}, Datacenters: 3, Replicas: 3, Copies: f.copies}
	config := dev.Config{
		Spec: spec, Dir: filepath.Join(work, "data"), GRPC: f.transport == "grpc", Durability: wal.OS, Timeout: client.DefaultTimeout, Logger: logger,
	}
	if sync {
		config.Durability = wal.Sync
	}
	cluster, err := dev.Start(ctx, config)
	if err != nil {
		return nil, nil, err
	}
	point := mountPoint{region: spec.Regions[0], dir: filepath.Join(work, "mount")}
	m := &remounted{mount: func(remember int64) (func() error, error) {
		point.cacheBytes = int(remember) * (1 + len(spec.Regions)) // each partition gets its share
		m, err := mountAt(cluster, config, point)
		if err != nil {
			return nil, err
		}
		return m.close, nil
	}}
	closeAll := func() error { return errors.Join(m.close(), cluster.Close()) }
	dir := filepath.Join(point.dir, string(point.region), "bench")
	if err := m.fresh(0); err != nil {
		return nil, nil, errors.Join(err, closeAll())
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		return nil, nil, errors.Join(err, closeAll())
	}
	return &bench.Contender{Name: "globalfs", Dir: dir, Backing: config.Dir, Fresh: m.fresh, Through: true}, closeAll, nil
}

// loopback mounts go-fuse's loopback file system.
func loopback(l *mount.Loopback, name string) (*bench.Contender, func() error, error) {
	if err := errors.Join(os.Mkdir(l.Backing, 0o755), os.Mkdir(l.Dir, 0o755)); err != nil {
		return nil, nil, err
	}
	m := &remounted{mount: func(int64) (func() error, error) { return l.Mount() }}
	if err := m.fresh(0); err != nil {
		return nil, nil, err
	}
	return &bench.Contender{Name: name, Dir: l.Dir, Backing: l.Backing, Fresh: m.fresh, Through: !l.Passthrough}, m.close, nil
}

// remounted is a mount that can be mounted again.
type remounted struct {
	mount   func(remember int64) (unmount func() error, err error)
	unmount func() error // nil: not mounted
}

func (r *remounted) fresh(remember int64) (err error) {
	if err := r.close(); err != nil {
		return err
	}
	r.unmount, err = r.mount(remember)
	return err
}

func (r *remounted) close() error {
	if r.unmount == nil {
		return nil
	}
	unmount := r.unmount
	r.unmount = nil
	return unmount()
}

func printFiles(out io.Writer, rows []bench.FileRow) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "durability\tcopies\tmeasure\tfile system\trate\tunit\tCPU us\tbytes written per byte\tglobalfs is\tcounted on disk\t")
	for _, row := range rows {
		for _, r := range row.Rates {
			fmt.Fprintf(w, "%s\t%d\t%s\t%s\t%.0f\t%s/s\t%.0f\t%.2f\t%s\t%s\t\n", row.Durability, row.Copies, row.Measure, r.Name,
				r.PerSecond, row.Unit, r.CPU, r.Written, ratio(r.Ratio), ratio(r.DiskRatio))
		}
	}
	return w.Flush()
}
