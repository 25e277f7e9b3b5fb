package cli

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/globalfs/globalfs/internal/daemon"
	"github.com/globalfs/globalfs/internal/topology"
)

// leftEvery is how often a server that is drained is looked at.
const leftEvery = 500 * time.Millisecond

// awaitLeft returns when a server that is drained has left its region's storage ring.
func awaitLeft(cmd *cobra.Command, a *daemon.Access, name string) error {
	ctx := cmd.Context()
	n := newNarrator(cmd.ErrOrStderr())
	defer n.stop()
	ticker := time.NewTicker(leftEvery)
	defer ticker.Stop()
	for {
		answers := a.Status(ctx)
		if s := a.Cluster().Server(name); s == nil || s.State == topology.StorageLeft {
			return nil
		}
		if !slices.ContainsFunc(answers, func(o daemon.Answer) bool { return o.Error == "" }) {
			return errors.New("no server of the cluster answers any more: 'globalfs status' tells whether it has left")
		}
		i := slices.IndexFunc(answers, func(o daemon.Answer) bool { return o.Server.Name == name })
		if i >= 0 && answers[i].Status.Storage != nil {
			n.say(fmt.Sprintf("%s has %d blocks left", name, answers[i].Status.Storage.Blocks))
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
