package lab

import (
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/globalfs/globalfs/bench/hops"
	"github.com/globalfs/globalfs/bench/memory"
	"github.com/globalfs/globalfs/internal/command"
)

// fabricFlags are the flags of `globalfs-lab fabric`.
type fabricFlags struct {
	out    string
	output command.Output
	config hops.Config
}

func newFabric() *cobra.Command {
	var f fabricFlags
	cmd := &cobra.Command{
		Use:   "fabric",
		Short: "One-sided memory between two processes: latency and throughput of its providers",
		Long: `fabric measures one-sided writes between two processes of this host: the time until the peer sees a write, the
time to its completion, and writes per second. The peer proves its identity by a certificate. A reader that spins needs
a CPU of its own; on a busy machine only the minimum is of the provider. Provider verbs needs an RDMA device and a program
that was built with CGO_ENABLED=1 go build -tags verbs ./cmd/globalfs-lab.`,
		Example: `  globalfs-lab fabric
  globalfs-lab fabric --providers shm --spin 0 --count 100000`,
		Args: command.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	flags, c := cmd.Flags(), &f.config
	flags.StringSliceVar(&c.Providers, "providers", []string{"shm", "soft"}, "providers to measure: "+strings.Join(memory.Providers(), ", "))
	flags.StringSliceVar(&c.Devices, "devices", nil, "RDMA devices of the two nodes, for provider verbs (default: the first one)")
	flags.DurationVar(&c.Spin, "spin", 100*time.Microsecond, "how long a reader of shm looks before it sleeps")
	flags.IntVar(&c.Count, "count", 20000, "hops, and completions, to measure")
	flags.IntVar(&c.Size, "payload", 64, "bytes of each write of the throughput")
	flags.IntVar(&c.Outstanding, "outstanding", 256, "writes outstanding, for the throughput")
	flags.DurationVar(&c.Duration, "duration", 2*time.Second, "of the throughput")
	flags.StringVar(&f.out, "out", "", "directory for fabric.json and fabric.txt")
	f.output.Register(cmd)
	cmd.AddCommand(newFabricPeer())
	return cmd
}

func (f *fabricFlags) run(cmd *cobra.Command) error {
	if err := f.config.Validate(); err != nil {
		return command.InputError(err)
	}
	program, err := os.Executable()
	if err != nil {
		return fmt.Errorf("the path of this program: %w", err)
	}
	f.config.Program = []string{program, "fabric", "peer"}
	f.config.Progress = stopwatch(cmd)
	report, err := hops.Run(cmd.Context(), f.config)
	if err != nil {
		return command.Interrupted(cmd.Context(), err)
	}
	return emit(cmd, report, f.output.JSON(), f.out)
}

// newFabricPeer makes the command that `globalfs-lab fabric` starts.
func newFabricPeer() *cobra.Command {
	var c memory.Config
	cmd := &cobra.Command{
		Use:     "peer",
		Short:   "The peer of a measurement, until its standard input ends",
		Hidden:  true,
		Long:    `peer is what fabric starts. It answers to writes until its standard input ends.`,
		Example: `  globalfs-lab fabric --providers shm`,
		Args:    command.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return hops.Peer(cmd.Context(), c, cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&c.Dir, "dir", "", "directory with the certificates and the addresses of both nodes")
	flags.StringVar(&c.Provider, "provider", "shm", "provider of the memory")
	flags.StringVar(&c.Device, "device", "", "RDMA device, for provider verbs")
	flags.DurationVar(&c.Spin, "spin", 0, "how long a reader of shm looks before it sleeps")
	return cmd
}
