package cli

import (
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/globalfs/globalfs/internal/command"
	"github.com/globalfs/globalfs/internal/daemon"
	"github.com/globalfs/globalfs/internal/identity"
	"github.com/globalfs/globalfs/internal/topology"
	"github.com/globalfs/globalfs/internal/transport"
)

// adminFlags are the flags of all admin commands.
type adminFlags struct {
	access  accessFlags
	output  string
	logging *logFlags
	after   func(cmd *cobra.Command, a *daemon.Access, changed *daemon.Changed) error // called after the result is printed; nil: nothing
}

func newAdmin(logging *logFlags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "admin",
		Short: "Change the servers of a running cluster",
		Long: `admin changes the servers of a running cluster, moves replicas between them, and adds partitions. A change is written to the registry (etcd), so etcd must
run. The servers then do the work in the background, and 'globalfs status' shows it. In a cluster with certificates these commands need the
certificate of an administrator.`,
		Example: `  globalfs admin join us-west-2 10.1.0.4:7420
  globalfs admin drain us-west-2a
  globalfs admin move-leader 0 eu-west-1a`,
	}
	command.Group(cmd)
	cmd.AddCommand(newAdminJoin(logging), newAdminDrain(logging), newAdminRemove(logging), newAdminMoveLeader(logging), newAdminReplace(logging), newAdminAddPartition(logging), newAdminRecover(), newAdminForget(logging))
	return cmd
}

func (f *adminFlags) register(cmd *cobra.Command) *cobra.Command {
	f.access.register(cmd)
	outputFlag(cmd, &f.output)
	return cmd
}

// ask sends q to a server and prints the result.
func (f *adminFlags) ask(cmd *cobra.Command, server string, q *daemon.Request, done string) error {
	logger, err := f.logging.logger()
	if err != nil {
		return err
	}
	a, err := f.access.open(cmd.Context(), logger, identity.Admin)
	if err != nil {
		return err
	}
	defer func() { _ = a.Close() }() // it only ends connections
	if n := len(a.Cluster().Partitions); int(q.Partition) >= n {
		return command.InputError(fmt.Errorf("there is no partition %d: give one of 0 to %d, as 'globalfs status' shows them", q.Partition, n-1))
	}
	var changed daemon.Changed
	if err := a.Ask(cmd.Context(), server, q, &changed); err != nil {
		if errors.Is(err, transport.ErrUnreachable) {
			err = fmt.Errorf("%s: start that server, or check that it can be reached", daemon.Plain(err.Error()))
		}
		return err
	}
	if err := f.print(cmd.OutOrStdout(), &changed, done); err != nil || f.after == nil {
		return err
	}
	return f.after(cmd, a, &changed)
}

// print prints the result of a change.
func (f *adminFlags) print(out io.Writer, changed *daemon.Changed, done string) error {
	if f.output == "json" {
		return command.PrintJSON(out, changed)
	}
	if changed.Server != "" {
		done = fmt.Sprintf(done, changed.Server)
	}
	for _, note := range append(changed.Notes, done) {
		fmt.Fprintln(out, note)
	}
	return nil
}

func newAdminJoin(logging *logFlags) *cobra.Command {
	f := adminFlags{logging: logging}
	var wait bool
	cmd := f.register(&cobra.Command{
		Use:   "join REGION HOST:PORT",
		Short: "Add a server to a region",
		Long: `join adds a server to a region and prints its name. Then make its certificate ('globalfs certs server NAME') and start it on its host, with
the cluster file and that name ('globalfs dev' does both by itself). The new server gets its share of the region's blocks. It gets replicas
when another server is drained, or by 'admin replace'.`,
		Example: `  globalfs admin join us-west-2 10.1.0.4:7420
  globalfs admin join --wait us-west-2 10.1.0.4:7420   # in the meantime, start the server on its host`,
		Args: twoArguments("a REGION and the new server's HOST:PORT"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := topology.CheckAddress(args[1]); err != nil {
				return command.InputError(err)
			}
			if wait {
				f.after = awaitJoined
			}
			return f.ask(cmd, "", &daemon.Request{Op: daemon.Join, Region: topology.Region(args[0]), Address: args[1]},
				"%s is in the cluster")
		},
	})
	arguments(cmd, regionNames)
	cmd.Flags().BoolVar(&wait, "wait", false, "return when the new server runs and the cluster has settled")
	return cmd
}

func newAdminDrain(logging *logFlags) *cobra.Command {
	f := adminFlags{logging: logging}
	var wait bool
	cmd := f.register(&cobra.Command{
		Use:   "drain SERVER",
		Short: "Move all replicas and blocks away from a server",
		Long: `drain moves the replicas of a server to other servers of its region, and then its blocks. The region needs a server without a replica of
the same partition. When 'globalfs status' does not list the drained server any more, you can stop it permanently.`,
		Example: `  globalfs admin drain us-west-2a
  globalfs admin drain --wait us-west-2a`,
		Args: oneServer,
		RunE: func(cmd *cobra.Command, args []string) error {
			if wait {
				f.after = func(cmd *cobra.Command, a *daemon.Access, _ *daemon.Changed) error { return awaitLeft(cmd, a, args[0]) }
			}
			return f.ask(cmd, "", &daemon.Request{Op: daemon.Drain, Server: args[0]}, args[0]+" is being drained: 'globalfs status' shows when it has left")
		},
	})
	arguments(cmd, serverNames)
	cmd.Flags().BoolVar(&wait, "wait", false, "return when the server has left the cluster")
	return cmd
}

func newAdminRemove(logging *logFlags) *cobra.Command {
	f := adminFlags{logging: logging}
	cmd := f.register(&cobra.Command{
		Use:   "remove SERVER",
		Short: "Take a dead server out of the cluster",
		Long: `remove takes a dead server out of the storage ring of its region. The other servers then make the missing copies of its blocks. Replace its
replicas before ('admin replace'). To take out a server that still runs, use 'admin drain'.`,
		Example: `  globalfs admin remove us-west-2a`,
		Args:    oneServer,
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.ask(cmd, "", &daemon.Request{Op: daemon.Remove, Server: args[0]}, args[0]+" is out of the cluster")
		},
	})
	arguments(cmd, serverNames)
	return cmd
}

func newAdminMoveLeader(logging *logFlags) *cobra.Command {
	f := adminFlags{logging: logging}
	cmd := f.register(&cobra.Command{
		Use:     "move-leader PARTITION SERVER",
		Short:   "Make the replica on a server the leader of a partition",
		Long:    `move-leader makes the replica on SERVER the leader of a partition. It stays the leader until it fails, or until you move the leader again.`,
		Example: `  globalfs admin move-leader 0 eu-west-1a`,
		Args:    twoArguments("a PARTITION and a SERVER"),
		RunE: func(cmd *cobra.Command, args []string) error {
			p, err := parsePartition(args[0])
			if err != nil {
				return err
			}
			return f.ask(cmd, args[1], &daemon.Request{Op: daemon.MoveLeader, Partition: p}, args[1]+" was asked to lead")
		},
	})
	arguments(cmd, partitionNumbers, serverNames)
	return cmd
}

func newAdminReplace(logging *logFlags) *cobra.Command {
	f := adminFlags{logging: logging}
	var to string
	var loss bool
	cmd := f.register(&cobra.Command{
		Use:   "replace PARTITION SERVER",
		Short: "Move a replica of a partition to another server",
		Long: `replace moves a replica of a partition from SERVER, which may be dead, to another server. The new replica takes over the state of the
others. A majority of the partition's replicas must be up. A server that comes back with an empty disk does this by itself.

With durability os, a loss of power can leave no majority of replicas that have lost nothing. The partition then waits until all replicas are
back, because any of them may have updates that the others have lost. If SERVER never returns, --accept-loss replaces its replica all the
same. Updates that only that replica has are then lost, but none that fsync has covered.`,
		Example: `  globalfs admin replace 2 us-east-1a --to us-east-1d`,
		Args:    twoArguments("a PARTITION and a SERVER"),
		RunE: func(cmd *cobra.Command, args []string) error {
			p, err := parsePartition(args[0])
			if err != nil {
				return err
			}
			return f.ask(cmd, "", &daemon.Request{Op: daemon.Replace, Partition: p, Server: args[1], To: to, AcceptLoss: loss}, "it takes over the state of the others")
		},
	})
	arguments(cmd, partitionNumbers, serverNames)
	cmd.Flags().StringVar(&to, "to", "", "server of the new replica (default: a server of the region without a replica of the partition)")
	flagValues(cmd, "to", serverNames)
	cmd.Flags().BoolVar(&loss, "accept-loss", false, "replace SERVER although a majority has lost power, and SERVER may have updates that the others have lost")
	return cmd
}

func newAdminForget(logging *logFlags) *cobra.Command {
	var config, output string
	var insecure bool
	cmd := &cobra.Command{
		Use:   "forget CLUSTER",
		Short: "Remove the registry entry of a decommissioned cluster",
		Long: `forget deletes the description of a cluster from etcd, so that you can make a new cluster with the same name. All servers of the cluster must
have stopped. Their data directories stay as they are, and the new cluster needs empty ones.`,
		Example: `  globalfs admin forget prod --config cluster.yaml`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return command.UsageError(errors.New("admin forget: give the name of the CLUSTER, as its file has it"))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			file, err := readConfig(config)
			if err != nil {
				return err
			}
			if args[0] != file.Name {
				return command.InputError(fmt.Errorf("the cluster file describes cluster %q, not %q: give that name, or the file of the other cluster with --config", file.Name, args[0]))
			}
			file.Registry.Insecure = file.Registry.Insecure || insecure
			logger, err := logging.logger()
			if err != nil {
				return err
			}
			if err := daemon.Forget(cmd.Context(), file, logger); err != nil {
				return err
			}
			if output == "json" {
				return command.PrintJSON(cmd.OutOrStdout(), map[string]string{"forgotten": file.Name})
			}
			fmt.Fprintf(cmd.OutOrStdout(), "etcd has nothing of cluster %s any more\n", file.Name)
			return nil
		},
	}
	cmd.Flags().StringVar(&config, "config", "", "the cluster file, which names etcd (default: "+defaultConfigs+")")
	cmd.Flags().BoolVar(&insecure, "insecure", false, "accept etcd by http on other hosts")
	outputFlag(cmd, &output)
	return cmd
}

func oneServer(cmd *cobra.Command, args []string) error {
	if len(args) != 1 {
		return command.UsageError(fmt.Errorf("%s: give one SERVER", cmd.CommandPath()))
	}
	return nil
}

func parsePartition(text string) (uint16, error) {
	p, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return 0, command.InputError(errors.New(text + ": give the number of a partition, as 'globalfs status' shows it"))
	}
	return uint16(p), nil
}

func twoArguments(what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != 2 {
			return command.UsageError(fmt.Errorf("%s: give %s", cmd.CommandPath(), what))
		}
		return nil
	}
}
