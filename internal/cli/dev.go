package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/globalfs/globalfs/internal/attach"
	"github.com/globalfs/globalfs/internal/collector"
	"github.com/globalfs/globalfs/internal/command"
	"github.com/globalfs/globalfs/internal/dev"
	"github.com/globalfs/globalfs/internal/mount"
	"github.com/globalfs/globalfs/internal/mount/serve"
	"github.com/globalfs/globalfs/internal/topology"
	"github.com/spf13/cobra"
)

func newDev(logging *logFlags) *cobra.Command {
	var cluster clusterFlags
	var mounts []string
	var profiler, scraped, cacheDir string
	cacheSize := byteSize(attach.DefaultDiskCacheBytes)
	cmd := &cobra.Command{
		Use:   "dev",
		Short: "Run a cluster of several regions in this process and mount it",
		Long: `dev runs all servers of a cluster in one process. The root of the tree is in the global partition, with replicas in all regions. Each region
has a local partition at /REGION. dev runs until Ctrl-C, then unmounts. It keeps the data directory between runs.`,
		Example: `  globalfs dev --mount ~/globalfs
  globalfs dev --wan --mount us-west-2=/mnt/a --mount eu-west-1=/mnt/b
  globalfs dev --regions us-east-1,sa-east-1 --data-dir /tmp/g --mount /mnt/g
  globalfs dev --blocks 's3://my-bucket/globalfs?region=eu-west-1' --mount /mnt/g`,
		Args: command.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			logger, err := logging.logger()
			if err != nil {
				return err
			}
			cfg, err := cluster.config(cmd, logger)
			if err != nil {
				return err
			}
			cfg.CacheDir, cfg.CacheBytes = cacheDir, int64(cacheSize)
			points, err := parseMounts(mounts, cfg.Spec.Regions)
			if err != nil {
				return command.InputError(err)
			}
			stop, err := serveProfiles(profiler)
			if err != nil {
				return err
			}
			return errors.Join(runDev(cmd.Context(), cfg, points, scraped, cmd.OutOrStdout()), stop())
		},
	}
	cluster.register(cmd)
	dir, err := dev.DefaultDir()
	if err != nil {
		dir = ""
	}
	cmd.Flags().BoolVar(&cluster.delegate, "delegate", false, "mounts hold directories in which they work alone: changes there return before the servers have ordered them (see 'globalfs mount --help')")
	cmd.Flags().BoolVar(&cluster.linearizable, "linearizable", false, "linearizable reads: each read observes all operations that completed before it on any mount; each read asks a majority, and the kernel caches nothing")
	cmd.Flags().StringVar(&cluster.dir, "data-dir", dir, "directory of the cluster's data")
	cmd.Flags().StringVar(&cacheDir, "cache-dir", "", "directory of a cache on this machine's disk for blocks that were read or written; kept between runs")
	cmd.Flags().Var(&cacheSize, "cache-size", "size limit of --cache-dir, at least 16MiB")
	cmd.Flags().StringArrayVar(&mounts, "mount", nil, "[REGION=]DIR: mount the tree at DIR as a client in REGION (default: the first region); may be repeated")
	command.DurationVar(cmd.Flags(), &cluster.grace, "gc-grace", collector.DefaultGrace, "how long an unused block is kept, for reads that began before")
	command.DurationVar(cmd.Flags(), &cluster.sweep, "gc-sweep", collector.DefaultSweep, "time between two searches for blocks that never became part of a file")
	cmd.Flags().StringVar(&scraped, "metrics", "", "serve /metrics, of all servers and mounts, at this address, such as 127.0.0.1:9464 (no authentication)")
	cmd.Flags().StringVar(&profiler, "pprof", "", "serve Go's profiler at this loopback address, such as 127.0.0.1:6060")
	return cmd
}

// mountPoint is the value of one --mount.
type mountPoint struct {
	region     topology.Region
	dir        string
	cacheBytes int // of the client; 0: the default
}

func parseMounts(values []string, regions []topology.Region) ([]mountPoint, error) {
	var points []mountPoint
	for _, v := range values {
		p := mountPoint{region: regions[0], dir: v}
		if region, dir, ok := strings.Cut(v, "="); ok {
			p = mountPoint{region: topology.Region(region), dir: dir}
		}
		known := false
		for _, r := range regions {
			known = known || r == p.region
		}
		if !known {
			return nil, fmt.Errorf("--mount %s: %w", v, topology.NoRegion(p.region, regions))
		}
		if p.dir == "" {
			return nil, fmt.Errorf("--mount %s: no directory", v)
		}
		for _, other := range points {
			if other.dir == p.dir {
				return nil, fmt.Errorf("--mount %s: the directory is given twice: give each mount a directory of its own", v)
			}
		}
		points = append(points, p)
	}
	return points, nil
}

// runDev runs the cluster until ctx ends or another process unmounts a mount.
func runDev(ctx context.Context, cfg dev.Config, points []mountPoint, scraped string, out io.Writer) (err error) {
	for _, p := range points {
		if err := checkMountPoint(p.dir, true); err != nil {
			return err
		}
	}
	var metrics laterHandler
	stop, err := serveHTTP("--metrics", scraped, &metrics)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	cluster, err := dev.Start(ctx, cfg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cluster.Close()) }()
	metrics.set(scrapes(cluster.Metrics()))
	describe(out, cluster.Plan, cfg.Dir)
	ended := make(chan string, len(points))
	for _, p := range points {
		m, failed := mountAt(cluster, cfg, p)
		if failed != nil {
			return failed
		}
		defer func() { err = errors.Join(err, m.close()) }()
		go func() {
			m.mount.Wait()
			ended <- p.dir
		}()
	}
	announce(out, points, cluster.File())
	select {
	case <-ctx.Done():
		cfg.Logger.Info("stopping: unmounting and closing all servers")
	case dir := <-ended:
		if ctx.Err() == nil {
			cfg.Logger.Info("unmounted from outside: stopping", "mount", dir)
		}
	}
	return nil
}

// mounted is a mount with its client.
type mounted struct {
	mount  *serve.Mount
	client *attach.Client
}

func mountAt(cluster *dev.Cluster, cfg dev.Config, p mountPoint) (*mounted, error) {
	if err := checkMountPoint(p.dir, true); err != nil {
		return nil, err
	}
	open := cluster.Client
	if p.cacheBytes > 0 {
		open = func(r topology.Region) (*attach.Client, error) { return cluster.ClientWithCache(r, p.cacheBytes) }
	}
	c, err := open(p.region)
	if err != nil {
		return nil, err
	}
	collector, err := cluster.Collector(c)
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	kernel := mount.Config{Client: c.Client, Dir: p.dir, Logger: cfg.Logger, Collector: collector, Holders: c.Holders, Trace: c.Trace()}
	if cfg.Linearizable {
		kernel.CacheTime = -1 // its cached data could be old
		kernel.Sync = true    // and a read sees all writes that have ended
	}
	m, err := mount.New(kernel)
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	cluster.Metrics().Add(ofMount(m, c, p.dir))
	cfg.Logger.Info("mounted", "dir", p.dir, "region", p.region)
	return &mounted{mount: m, client: c}, nil
}

func (m *mounted) close() error {
	err := m.mount.Unmount()
	m.client.Finish()
	return errors.Join(err, m.client.Close())
}

// describe prints the partitions and blocks with their servers.
func describe(out io.Writer, plan *topology.Cluster, dir string) {
	fmt.Fprintf(out, "data directory: %s\n\n", dir)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "PARTITION\tPATH\tKIND\tREPLICAS ON (first: leader)")
	for _, p := range plan.Partitions {
		kind := "local to " + string(p.Region)
		if p.Region == "" {
			kind = "global"
		}
		var servers []string
		for _, r := range p.Replicas {
			servers = append(servers, r.Server)
		}
		fmt.Fprintf(w, "%d\t%s\t%s\t%s\n", p.ID, p.Path, kind, strings.Join(servers, " "))
	}
	describeBlocks(w, plan)
	w.Flush()
	fmt.Fprintln(out)
}

// describeBlocks prints the places of the blocks.
func describeBlocks(w io.Writer, plan *topology.Cluster) {
	if plan.Objects != nil {
		fmt.Fprintln(w, "\nREGION\tBLOCKS IN\t\tAT")
		for _, r := range plan.Regions {
			b := plan.Objects.Of(r)
			fmt.Fprintf(w, "%s\ts3://%s/%s\t\t%s\n", r, b.Bucket, b.Prefix, b.Endpoint)
		}
		return
	}
	fmt.Fprintln(w, "\nREGION\tSTORAGE RING\t\tCOPIES OF A BLOCK")
	for _, r := range plan.Regions {
		var servers []string
		for _, s := range plan.Storage(r) {
			servers = append(servers, s.Name)
		}
		fmt.Fprintf(w, "%s\t%s\t\t%d\n", r, strings.Join(servers, " "), plan.Copies)
	}
}

// announce prints commands to try. Scripts wait for the line that begins with "ready:".
func announce(out io.Writer, points []mountPoint, file string) {
	if len(points) == 0 {
		fmt.Fprintf(out, "ready: nothing mounted (use --mount DIR); Ctrl-C to stop\n\nTry, in another terminal:\n  globalfs status --config %s\n", file)
		return
	}
	var dirs []string
	for _, p := range points {
		dirs = append(dirs, p.dir)
	}
	fmt.Fprintf(out, "ready: %s\n", strings.Join(dirs, " "))
	d := points[0]
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, `
Try, in another terminal:
  df -hT %[1]s
  ls -l %[1]s	# the directories of the regions, and global entries
  cp -r /etc %[1]s/%[2]s/	# local: replicated inside this region only
  echo hello > %[1]s/hello	# global: replicated in every region
`, d.dir, d.region)
	_ = w.Flush() // as of Fprintf: the cluster runs also without a reader of its output
	fmt.Fprintf(out, `  # the state of the servers; 'globalfs admin' changes them
  globalfs status --config %s
Ctrl-C unmounts and stops; the data stays.
`, file)
}
