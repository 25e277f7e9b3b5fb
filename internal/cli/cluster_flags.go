package cli

import (
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/globalfs/globalfs/internal/command"
	"github.com/globalfs/globalfs/internal/dev"
	"github.com/globalfs/globalfs/internal/topology"
	"github.com/globalfs/globalfs/internal/wal"
	"github.com/spf13/cobra"
)

// clusterFlags configure the embedded cluster that a command starts.
type clusterFlags struct {
	file        string
	regions     []string
	datacenters int
	replicas    int
	copies      int
	partitions  int // of each region
	globals     int // global partitions
	blocks      string
	dir         string
	wan         bool
	transport   string
	durability  string
	timeout     time.Duration

	linearizable bool
	delegate     bool
	grace, sweep time.Duration
}

func (f *clusterFlags) register(cmd *cobra.Command) {
	d := topology.DefaultSpec()
	var regions []string
	for _, r := range d.Regions {
		regions = append(regions, string(r))
	}
	flags := cmd.Flags()
	flags.StringVar(&f.file, "config", "", "YAML file with regions, datacenters, replicas, copies; flags win over it")
	flags.StringSliceVar(&f.regions, "regions", regions, "names of the regions; each gets a local partition at /NAME")
	flags.IntVar(&f.datacenters, "datacenters", d.Datacenters, "number of datacenters in each region, with one server in each")
	flags.IntVar(&f.replicas, "replicas", d.Replicas, "number of replicas of each partition: 1, 3 or 5")
	flags.IntVar(&f.partitions, "partitions", 1, "number of partitions of each region, over which new directories spread")
	flags.IntVar(&f.globals, "global-partitions", 1, "number of partitions for the directories outside of the regions")
	flags.IntVar(&f.copies, "copies", d.Copies, "number of copies of each block in a region")
	flags.StringVar(&f.blocks, "blocks", onDisks, "place of the blocks: disks (of the servers), or s3://BUCKET/PREFIX?endpoint=URL, with &region=, &pathstyle=true, &credentials=FILE if needed")
	flags.BoolVar(&f.wan, "wan", false, "add the delays of real networks between the regions")
	flags.StringVar(&f.transport, "transport", "inprocess", "transport between the servers: inprocess (queues in memory) or grpc (TLS over loopback; named after an earlier protocol)")
	flags.StringVar(&f.durability, "durability", "sync", "durability of an acknowledged update: sync (a loss of power), os (the end of the process; fsync waits for the disk), memory (neither: for tests)")
	command.Choice(cmd, flags, "transport", "inprocess", "grpc")
	command.Choice(cmd, flags, "durability", "sync", "os", "memory")
	command.DurationVar(flags, &f.timeout, "timeout", 30*time.Second, "time limit of one file system operation; then it fails with ETIMEDOUT")
}

// config makes the configuration. Flags override the file, and the file overrides defaults.
func (f *clusterFlags) config(cmd *cobra.Command, logger *slog.Logger) (dev.Config, error) {
	spec, err := f.spec(cmd)
	if err != nil {
		return dev.Config{}, command.InputError(err)
	}
	cfg := dev.Config{Spec: spec, Dir: f.dir, WAN: f.wan, Linearizable: f.linearizable, Delegate: f.delegate, Timeout: f.timeout, Grace: f.grace, Sweep: f.sweep, Build: command.Version(), Logger: logger}
	if f.grace < 0 || f.sweep < 0 {
		return cfg, command.InputError(fmt.Errorf("--gc-grace %v, --gc-sweep %v: give positive durations such as 10m", f.grace, f.sweep))
	}
	if f.grace == 0 && cmd.Flags().Changed("gc-grace") {
		cfg.Grace = -1 // no grace time
	}
	cfg.GRPC = f.transport == "grpc"
	cfg.Durability = map[string]wal.Durability{"os": wal.OS, "sync": wal.Sync, "memory": wal.Memory}[f.durability]
	if f.timeout <= 0 {
		return cfg, command.InputError(fmt.Errorf("--timeout %v: give a positive duration such as 30s", f.timeout))
	}
	return cfg, nil
}

func (f *clusterFlags) spec(cmd *cobra.Command) (topology.Spec, error) {
	spec := topology.DefaultSpec()
	if f.file != "" {
		text, err := os.ReadFile(f.file)
		if err != nil {
			return spec, fmt.Errorf("--config: %w", err)
		}
		if spec, err = topology.ParseSpec(text); err != nil {
			return spec, fmt.Errorf("%s: %w", f.file, err)
		}
	}
	given := func(name string) bool { return f.file == "" || cmd.Flags().Changed(name) }
	if given("regions") {
		spec.Regions = nil
		for _, r := range f.regions {
			spec.Regions = append(spec.Regions, topology.Region(r))
		}
	}
	if given("datacenters") {
		spec.Datacenters = f.datacenters
	}
	if given("replicas") {
		spec.Replicas = f.replicas
	}
	if given("partitions") {
		spec.Partitions = f.partitions
	}
	if given("global-partitions") {
		spec.GlobalPartitions = f.globals
	}
	if given("copies") {
		spec.Copies = f.copies
	}
	if given("blocks") {
		var err error
		if spec.Objects, err = parseBlocks(f.blocks); err != nil {
			return spec, err
		}
	}
	return spec, spec.Validate()
}
