package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/globalfs/globalfs/internal/command"
	"github.com/globalfs/globalfs/internal/daemon"
	"github.com/globalfs/globalfs/internal/identity"
)

// exitUnhealthy is the exit code of etcdctl for an unhealthy cluster.
const exitUnhealthy = 5

func newStatus(logging *logFlags) *cobra.Command {
	var access accessFlags
	var output string
	var watch, settled bool
	var view statusView
	var every, wait time.Duration
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show the state of a cluster on one screen",
		Long: `status asks all servers. It prints each problem in one line. Then it prints the servers, and the partitions with their leaders and the
number of entries that each replica is behind. With --storage it adds the blocks of each storage server and the results of repair and scrub.

A problem has a level and a code:

  ERR   files are not served, or data is lost or wrong
  WARN  files are served, with less redundancy
  INFO  it ends by itself, for example after the start of a server

With --verbose it also prints problems that follow from another one (a server is down, and so is its replica of a partition), and the
errors that servers report, the kind of the connections between servers, and the order of each partition: primcast or tram. For tram it
shows for each replica the connections to the memory of the others (tcp, shm on one host, or verbs by RDMA), the slots in use in the fullest log (at the
leader), the free slots for its proposals (credits), and how often it has revoked the rights of another one. -o json contains everything.

Exit codes: 0 healthy (no problem above INFO), 5 not healthy, 1 no server answers. In a rolling restart, wait until
'globalfs status --settled' exits with 0 before you stop the next server. With --settled an INFO line is a failure, too.

It uses colours on a terminal only, and not if the environment variable NO_COLOR is set.`,
		Example: `  globalfs status --config cluster.yaml
  globalfs status --servers 10.1.0.1:7420 --certs certs --watch
  globalfs status --settled
  globalfs status --verbose
  globalfs status -o json | jq -r '.problems[] | .level + " " + .code + " " + .text'`,
		Args: command.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if watch && output == "json" {
				return command.UsageError(errors.New("--watch draws a screen: give --watch or --output json"))
			}
			logger, err := logging.logger()
			if err != nil {
				return err
			}
			until := time.Now().Add(wait)
			if wait > access.connect || wait > 0 && !cmd.Flags().Changed("connect-timeout") {
				access.connect = wait
			}
			a, err := access.open(cmd.Context(), logger, identity.Admin, identity.Client)
			if err != nil {
				return err
			}
			defer func() { _ = a.Close() }() // it only ends connections
			view.colors = paletteFor(cmd.OutOrStdout())
			show := view.write
			if watch {
				return watchStatus(cmd.Context(), a, cmd.OutOrStdout(), show, every)
			}
			if output == "json" {
				show = func(out io.Writer, h *daemon.Health) error { return command.PrintJSON(out, h) }
			}
			return awaitHealthy(cmd.Context(), a, cmd.OutOrStdout(), show, settled, until)
		},
	}
	access.register(cmd)
	outputFlag(cmd, &output)
	cmd.Flags().BoolVarP(&watch, "watch", "w", false, "show the state repeatedly, until Ctrl-C")
	cmd.Flags().BoolVar(&view.storage, "storage", false, "also show the storage servers in detail, which json always has")
	cmd.Flags().BoolVarP(&view.verbose, "verbose", "v", false, "also show problems that follow from others, the errors that servers report, the connections between servers, and the orders of partitions")
	cmd.Flags().BoolVar(&settled, "settled", false, "exit with 5 also while a server still has something to do after its start")
	command.DurationVar(cmd.Flags(), &every, "every", 2*time.Second, "with --watch: time between two screens")
	command.DurationVar(cmd.Flags(), &wait, "wait", 0, "wait at most that long until there is no problem; with --settled also until there is no INFO line")
	return cmd
}

// healthyEvery is the time between two status calls of awaitHealthy.
const healthyEvery = 500 * time.Millisecond

// awaitHealthy waits until there are no problems, at most until the given time. Then it shows the state.
func awaitHealthy(ctx context.Context, a *daemon.Access, out io.Writer, show healthPrinter, settled bool, until time.Time) error {
	for time.Now().Before(until) {
		h := daemon.Judge(a.Name(), a.Status(ctx), a.Cluster())
		if len(h.Problems) == 0 && (!settled || h.Settled()) {
			break
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(healthyEvery):
		}
	}
	return showStatus(ctx, a, out, show, settled)
}

// healthPrinter prints a Health.
type healthPrinter func(io.Writer, *daemon.Health) error

func showStatus(ctx context.Context, a *daemon.Access, out io.Writer, show healthPrinter, settled bool) error {
	h := daemon.Judge(a.Name(), a.Status(ctx), a.Cluster())
	err := show(out, h)
	switch {
	case err != nil:
		return err
	case !h.Healthy:
		return command.StatusError(errors.New("the cluster is not healthy"), exitUnhealthy)
	case settled && !h.Settled():
		return command.StatusError(errors.New("the cluster is healthy, and servers still have something to do after their start"), exitUnhealthy)
	}
	return nil
}

// clearScreen clears the screen of all common terminals.
const clearScreen = "\x1b[H\x1b[2J"

func watchStatus(ctx context.Context, a *daemon.Access, out io.Writer, show healthPrinter, every time.Duration) error {
	if every <= 0 {
		return command.InputError(fmt.Errorf("--every %v: give a duration such as 2s", every))
	}
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		h := daemon.Judge(a.Name(), a.Status(ctx), a.Cluster())
		if ctx.Err() != nil {
			return nil
		}
		fmt.Fprint(out, clearScreen)
		if err := show(out, h); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}
