package lab

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/globalfs/globalfs/bench/geo"
	"github.com/globalfs/globalfs/internal/command"
	"github.com/globalfs/globalfs/internal/topology"
	"github.com/globalfs/globalfs/test/cluster"
)

// geoFlags are the flags of `globalfs-lab geo`.
type geoFlags struct {
	config  geo.Config
	regions []string
	dir     string
	output  command.Output
	out     string
}

func newGeo() *cobra.Command {
	f := geoFlags{config: geo.Default()}
	cmd := &cobra.Command{
		Use:   "geo",
		Short: "The microbenchmarks on real server processes: on loopback and in a wide-area network, beside the embedded cluster",
		Long: `geo measures reading and writing 1 KB, creating a file, and creating one with 1 KB (thesis section 3.6.1), local and global, through mounts; with
several clients also creating files apart, each client in a directory of its own, since the kernel makes one file at a time in one:

  embedded        all servers and the mount in one process, queues in memory between them ('globalfs dev')
  embedded-grpc   the same with TLS over loopback between the servers
  embedded-wan    as embedded, with the delays between the regions
  loopback        etcd, and a process for each server and for a mount in each region, with TLS, on loopback
  loopback-sync   as loopback, with durability sync in place of os (only if it is named)
  loopback-tram   as loopback-sync, and TRAM orders the partitions of a region in one-sided memory (only if it is named)
  loopback-soft   as loopback-tram, with TCP between the memories of servers in place of shared memory (only if it is named)
  lab             as loopback on hosts of a wide-area network in this machine, with the delays between the regions; measured from each
                  region. It needs root and /dev/net/tun, and is left out, with the reason, where these are missing

All run at the same time and take turns. Whoever loads a mount is a process of its own, whose CPU time is not counted. CPU is that of one
operation: of the mount, the servers in its region (near) and elsewhere (far). Ratios are to embedded, or to loopback if that is the first: medians over the rounds.

With --profile, creates are then measured again while the profilers of all processes run, and a second table says what one create
costs each process where.`,
		Example: `  globalfs-lab geo --out bench/results --profile /tmp/profiles
  globalfs-lab geo --settings embedded,loopback --clients 1 --duration 500ms
  globalfs-lab geo --settings lab --datacenters 3 --output json
  globalfs-lab geo --settings loopback,loopback-sync --regions west --datacenters 3   # the price of durability
  globalfs-lab geo --settings loopback-sync,loopback-tram --regions west --datacenters 3 --sync   # TRAM beside PrimCast`,
		Args: command.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	flags, c := cmd.Flags(), &f.config
	for _, r := range c.Regions {
		f.regions = append(f.regions, string(r))
	}
	flags.StringSliceVar(&c.Settings, "settings", c.Settings, "what to measure on")
	flags.StringSliceVar(&f.regions, "regions", f.regions, "names of the regions; the first is where it is measured from where nothing is far")
	flags.IntVar(&c.Datacenters, "datacenters", c.Datacenters, "datacenters a region, one server in each; from 3 on a region's partition has 3 replicas, else 1")
	flags.IntSliceVar(&c.Clients, "clients", c.Clients, "numbers of clients, each a measurement of its own")
	flags.DurationVar(&c.Duration, "duration", c.Duration, "of each measurement in each round")
	flags.IntVar(&c.Rounds, "rounds", c.Rounds, "in which the settings take turns")
	flags.BoolVar(&c.Sync, "sync", false, "the mounts of processes order each change before they answer, as the thesis' clients do")
	flags.StringVar(&c.Program, "globalfs", "", "the globalfs program (default: that beside this program, or in PATH)")
	flags.StringVar(&c.Etcd, "etcd", "", "the etcd program (default: that in PATH, or what deploy/deps.sh has fetched)")
	flags.StringVar(&c.Profile, "profile", "", "directory for CPU profiles of all processes while files are created")
	flags.StringVar(&f.dir, "data-dir", "", "where the clusters keep their data, deleted at the end (default: a temporary directory)")
	f.output.Register(cmd)
	flags.StringVar(&f.out, "out", "", "directory in which to put geo.txt, geo.json and figures (SVG) as well")
	cmd.AddCommand(newLoad())
	return cmd
}

// newLoad makes the command that `globalfs-lab geo` starts for each measurement.
func newLoad() *cobra.Command {
	var l geo.Load
	cmd := &cobra.Command{
		Use:    "load DIR",
		Short:  "One measurement in a directory",
		Hidden: true,
		Long: `load is what geo starts for each measurement. It works in DIR, prints that it is prepared, begins at the next line of
standard input, and prints its latencies as JSON.`,
		Example: `  echo | globalfs-lab geo load --operation create --clients 4 --duration 1s /mnt/globalfs/bench`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return command.UsageError(fmt.Errorf("%s: give one DIR", cmd.CommandPath()))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			l.Dir = args[0]
			return l.Serve(cmd.Context(), cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&l.Operation, "operation", "create", "what to do")
	flags.StringVar(&l.Prefix, "prefix", "bench", "of the names of files")
	flags.IntVar(&l.Clients, "clients", 1, "at the same time")
	flags.DurationVar(&l.Duration, "duration", time.Second, "for how long")
	return cmd
}

// prepare checks the flags and completes the configuration.
func (f *geoFlags) prepare() (err error) {
	c := &f.config
	c.Regions = nil
	for _, r := range f.regions {
		c.Regions = append(c.Regions, topology.Region(r))
	}
	if err := c.Validate(); err != nil {
		return command.InputError(err)
	}
	if c.Etcd == "" && c.NeedsEtcd() {
		if c.Etcd, err = cluster.FindEtcd(); err != nil {
			return command.InputError(fmt.Errorf("%w: run deploy/deps.sh test, or give --etcd PATH, or --settings without loopback and lab", err))
		}
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	c.Loader = []string{self, "geo", "load"}
	c.Program, err = findProgram(c.Program, filepath.Dir(self))
	return err
}

// findProgram returns the path of globalfs: the given one, or else the one in dir, or else the one in PATH.
func findProgram(given, dir string) (string, error) {
	candidates := []string{filepath.Join(dir, "globalfs"), "globalfs"}
	if given != "" {
		candidates = []string{given}
	}
	var errs []error
	for _, c := range candidates {
		path, err := exec.LookPath(c)
		if err == nil {
			return filepath.Abs(path)
		}
		errs = append(errs, err)
	}
	return "", command.InputError(fmt.Errorf("no globalfs program: %w: build it with 'make build', or give --globalfs PATH", errors.Join(errs...)))
}

func (f *geoFlags) run(cmd *cobra.Command) (err error) {
	if err := f.prepare(); err != nil {
		return err
	}
	work, err := os.MkdirTemp(f.dir, "globalfs-bench-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	f.config.Dir = work
	f.config.Progress = stopwatch(cmd)
	report, err := geo.Run(cmd.Context(), f.config)
	if err != nil {
		return command.Interrupted(cmd.Context(), err)
	}
	return emit(cmd, report, f.output.JSON(), f.out)
}
