package cli

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/globalfs/globalfs/internal/command"
	"github.com/globalfs/globalfs/internal/daemon"
	"github.com/globalfs/globalfs/internal/identity"
)

// exitUnhealthy is etcdctl's code for a cluster that is not healthy.
const exitUnhealthy = 5

func newStatus(logging *logFlags) *cobra.Command {
	var access accessFlags
	var output string
	var watch, storage bool
	var every time.Duration
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show the state of a cluster on one screen",
		Long: `status asks all servers: what is wrong, in one line each, then regions, partitions with their leaders and how far replicas are
behind, storage and repair. With --storage it adds what each storage server has, what repair has done and what the scrub has found. Exit codes: 0 healthy, 5 something is wrong, 1 no server answers.`,
		Example: `  globalfs status --config cluster.yaml
  globalfs status --servers 10.1.0.1:7420 --certs certs --watch
  globalfs status -o json | jq '.problems'`,
		Args: command.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkOutput(output); err != nil {
				return err
			}
			logger, err := logging.logger()
			if err != nil {
				return err
			}
			a, err := access.open(cmd.Context(), logger, identity.Admin, identity.Client)
			if err != nil {
				return err
			}
			defer func() { _ = a.Close() }() // it only ends connections
			show := printHealth
			if storage {
				show = printHealthAndStorage
			}
			if watch {
				return watchStatus(cmd.Context(), a, cmd.OutOrStdout(), show, every)
			}
			if output == "json" {
				show = func(out io.Writer, h *daemon.Health) error { return command.PrintJSON(out, h) }
			}
			return showStatus(cmd.Context(), a, cmd.OutOrStdout(), show)
		},
	}
	access.register(cmd)
	cmd.Flags().StringVarP(&output, "output", "o", "text", "text or json")
	cmd.Flags().BoolVarP(&watch, "watch", "w", false, "show it again and again, until Ctrl-C")
	cmd.Flags().BoolVar(&storage, "storage", false, "also show the storage servers in detail, which json always has")
	cmd.Flags().DurationVar(&every, "every", 2*time.Second, "with --watch: how often")
	return cmd
}

// healthPrinter prints a Health.
type healthPrinter func(io.Writer, *daemon.Health) error

func showStatus(ctx context.Context, a *daemon.Access, out io.Writer, show healthPrinter) error {
	h := daemon.Judge(a.Name(), a.Status(ctx), a.Cluster())
	err := show(out, h)
	if err == nil && len(h.Problems) > 0 {
		return command.StatusError(fmt.Errorf("the cluster is not healthy: %d problems", len(h.Problems)), exitUnhealthy)
	}
	return err
}

// clearScreen is understood by every terminal of today.
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
