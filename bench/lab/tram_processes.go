package lab

import (
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/globalfs/globalfs/bench/memory"
	"github.com/globalfs/globalfs/bench/replicas"
	"github.com/globalfs/globalfs/internal/command"
)

// tramProcessesFlags are the flags of `globalfs-lab tram processes`.
type tramProcessesFlags struct {
	out    string
	output command.Output
	config replicas.Config
}

func newTramProcesses() *cobra.Command {
	var f tramProcessesFlags
	cmd := &cobra.Command{
		Use:   "processes",
		Short: "TRAM in real processes on one-sided memory, and the death of a leader",
		Long: `processes starts a process for each replica of TRAM, each with a closed-loop client. With --kill it kills the leader of
the root with SIGKILL when another member of the root has half of its client's messages delivered. At the end all deliveries are judged: none may
be lost, duplicated or out of order. Time is real, and everything is in memory.`,
		Example: `  globalfs-lab tram processes --groups 1 --destinations 1 --kill
  globalfs-lab tram processes --providers soft --groups 3 --destinations 2`,
		Args: command.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	flags, c := cmd.Flags(), &f.config
	flags.StringSliceVar(&c.Providers, "providers", []string{"shm", "soft"}, "providers of the memory: "+strings.Join(memory.Providers(), ", "))
	flags.IntVar(&c.Groups, "groups", 3, "groups of three replicas, in a tree")
	flags.IntVar(&c.Destination, "destinations", 2, "groups that a message goes to")
	flags.IntVar(&c.Messages, "messages", 5000, "messages of each client")
	flags.IntVar(&c.Outstanding, "outstanding", 16, "messages that each client has outstanding")
	flags.IntVar(&c.Payload, "payload", 64, "bytes of each message")
	flags.DurationVar(&c.Spin, "spin", 20*time.Microsecond, "how long a reader of shm looks before it sleeps")
	flags.DurationVar(&c.Suspect, "suspect", 20*time.Millisecond, "how long work waits without progress until the leader is replaced")
	flags.BoolVar(&c.Kill, "kill", false, "kill the leader of the root under load")
	flags.StringVar(&f.out, "out", "", "directory for tram-processes.json and tram-processes.txt")
	f.output.Register(cmd)
	cmd.AddCommand(newTramReplica())
	return cmd
}

func (f *tramProcessesFlags) run(cmd *cobra.Command) error {
	if err := f.config.Validate(); err != nil {
		return command.InputError(err)
	}
	program, err := os.Executable()
	if err != nil {
		return fmt.Errorf("the path of this program: %w", err)
	}
	f.config.Program = []string{program, "tram", "processes", "replica"}
	f.config.Progress = stopwatch(cmd)
	report, err := replicas.Run(cmd.Context(), f.config)
	if err != nil {
		return command.Interrupted(cmd.Context(), err)
	}
	return emit(cmd, report, f.output.JSON(), f.out)
}

// newTramReplica makes the command that `globalfs-lab tram processes` starts for each replica.
func newTramReplica() *cobra.Command {
	return &cobra.Command{
		Use:    "replica",
		Short:  "One replica, obeying its standard input",
		Hidden: true,
		Long: `replica is what processes starts for each replica. The first line of its standard input describes it, the second starts
the load, the third asks for the report. It ends with its input.`,
		Example: `  globalfs-lab tram processes --groups 1 --destinations 1`,
		Args:    command.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return replicas.Replica(cmd.Context(), cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
}
