package lab

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/globalfs/globalfs/bench/growth"
	"github.com/globalfs/globalfs/internal/command"
	"github.com/globalfs/globalfs/internal/topology"
	"github.com/globalfs/globalfs/test/cluster"
)

// growthFlags are the flags of `globalfs-lab growth`.
type growthFlags struct {
	config growth.Config
	dir    string
	out    string
	add    string
	output command.Output
}

func newGrowth() *cobra.Command {
	var f growthFlags
	cmd := &cobra.Command{
		Use:   "growth",
		Short: "Operations, start, memory, state transfer, fsck and backup as the number of files grows",
		Long: `growth starts etcd and three servers with TLS and three replicas of each partition, each in a process of its own. It makes the files in the stores of the stopped
servers, and measures at each size: operations in one directory through a new mount, the start of the servers, fsck, two backups, and the transfer of the state to a server
that has lost its disk. At the end it measures many open files, idle mounts and idle sessions of the client library. A million files take about 100 MiB of --data-dir for
each of the three servers. A long measurement can be made in several runs: each one skips a part and adds the figures of the earlier ones.`,
		Example: `  globalfs-lab growth --sizes 1000,10000
  globalfs-lab growth --sizes 10000,100000,1000000 --open 100000 --idle 100 --out bench/results
  globalfs-lab growth --sizes 10000000 --skip backup --add-to bench/results/growth.json --out bench/results`,
		Args: command.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	flags, c := cmd.Flags(), &f.config
	flags.IntSliceVar(&c.Sizes, "sizes", []int{10_000, 100_000, 1_000_000}, "files in the partition, ascending")
	flags.IntVar(&c.Directory, "directory", 1_000_000, "files in one directory, at most; the others are in directories of 1,000")
	flags.IntVar(&c.Operations, "operations", 300, "of each kind at each size")
	flags.IntVar(&c.Open, "open", 0, "files that are open at the last size, 50,000 through each mount; 0: not measured")
	flags.IntVar(&c.Idle, "idle", 0, "idle mounts at the last size, about 30 MiB each; 0: not measured")
	flags.IntVar(&c.Sessions, "sessions", 0, "idle sessions of the client library at the last size, each with an open file; 0: not measured")
	flags.DurationVar(&c.Window, "window", growth.Window, "for which idle mounts and sessions are observed")
	flags.StringSliceVar(&c.Skip, "skip", nil, "what is not measured: "+strings.Join(growth.Measures(), ", "))
	flags.StringVar(&c.Durability, "durability", "sync", "of the servers: sync, the default of 'globalfs init', or os")
	flags.StringVar(&c.Program, "globalfs", "", "the globalfs program (default: that beside this program, or in PATH)")
	flags.StringVar(&c.Etcd, "etcd", "", "the etcd program (default: that in PATH, or what deploy/deps.sh has fetched)")
	flags.StringVar(&f.dir, "data-dir", "", "where the cluster keeps its data, deleted at the end (default: a temporary directory)")
	flags.StringVar(&f.out, "out", "", "directory for growth.txt and growth.json")
	flags.StringVar(&f.add, "add-to", "", "growth.json of an earlier run with the same settings: the report has its figures, too")
	f.output.Register(cmd)
	cmd.AddCommand(newHold(), newSessions())
	return cmd
}

// newHold makes the command that `globalfs-lab growth --open` starts for each 10,000 files.
func newHold() *cobra.Command {
	return &cobra.Command{
		Use:     "hold",
		Short:   "Open the files on standard input, and keep them open",
		Hidden:  true,
		Long:    `hold opens the files with the paths on standard input up to an empty line, and ends when its input does.`,
		Example: `  globalfs-lab growth --open 100000`,
		Args:    command.NoArguments,
		RunE:    func(cmd *cobra.Command, _ []string) error { return growth.Hold(cmd.InOrStdin(), cmd.OutOrStdout()) },
	}
}

// newSessions makes the command that `globalfs-lab growth --sessions` starts.
func newSessions() *cobra.Command {
	var c growth.SessionsConfig
	var region string
	cmd := &cobra.Command{
		Use:    "sessions",
		Short:  "Open many sessions of the client library",
		Hidden: true,
		Long: `sessions opens sessions, each with its own connections and an open file, and writes the mean time of one. After a line on standard input it
makes files with them in turn, and writes the median time. It ends when its input does.`,
		Example: `  globalfs-lab growth --sessions 1000`,
		Args:    command.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c.Region = topology.Region(region)
			return growth.ServeSessions(cmd.Context(), c, cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
	flags := cmd.Flags()
	flags.StringSliceVar(&c.Servers, "servers", nil, "addresses of the servers")
	flags.StringVar(&c.Certs, "certs", "", "directory with the certificates")
	flags.StringSliceVar(&c.Names, "names", nil, "of the certificates, which the sessions use in turn")
	flags.StringVar(&region, "region", "", "of the sessions")
	flags.Uint64Var((*uint64)(&c.Dir), "inode", 0, "number of the directory of the files")
	flags.IntVar(&c.Count, "count", 1, "of sessions")
	flags.IntVar(&c.Creates, "creates", 1, "measured creates")
	return cmd
}

func (f *growthFlags) run(cmd *cobra.Command) (err error) {
	c := &f.config
	if err := c.Validate(); err != nil {
		return command.InputError(err)
	}
	if c.Durability != "sync" && c.Durability != "os" {
		return command.InputError(fmt.Errorf("--durability %q: give sync or os", c.Durability))
	}
	if c.Etcd == "" {
		if c.Etcd, err = cluster.FindEtcd(); err != nil {
			return command.InputError(fmt.Errorf("%w: run deploy/deps.sh test, or give --etcd PATH", err))
		}
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	if c.Program, err = findProgram(c.Program, filepath.Dir(self)); err != nil {
		return err
	}
	c.Holder, c.Client = []string{self, "growth", "hold"}, []string{self, "growth", "sessions"}
	var earlier []byte
	if f.add != "" {
		if earlier, err = os.ReadFile(f.add); err != nil {
			return command.InputError(err)
		}
	}
	if f.dir != "" { // servers take a relative path as relative to their configuration
		if f.dir, err = filepath.Abs(f.dir); err != nil {
			return err
		}
	}
	if c.Dir, err = os.MkdirTemp(f.dir, "globalfs-growth-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(c.Dir)) }()
	c.Progress = stopwatch(cmd)
	report, err := growth.Run(cmd.Context(), *c)
	err = command.Interrupted(cmd.Context(), err)
	if report == nil || len(report.Points) == 0 {
		return err
	}
	if earlier != nil {
		if added := report.Add(earlier); added != nil {
			return errors.Join(added, err)
		}
	}
	return errors.Join(emit(cmd, report, f.output.JSON(), f.out), err) // what was measured before an error
}
