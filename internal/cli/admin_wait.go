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

// leftEvery is the time between two status calls about a server that leaves or joins.
const leftEvery = 500 * time.Millisecond

// awaitLeft waits until a drained server has left its region's storage ring.
func awaitLeft(cmd *cobra.Command, a *daemon.Access, name string) error {
	ctx := cmd.Context()
	n := newNarrator(cmd.Context(), cmd.ErrOrStderr())
	defer n.stop()
	ticker := time.NewTicker(leftEvery)
	defer ticker.Stop()
	first, began := uint64(0), time.Now() // the highest number of blocks seen there, and its time
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
			left := answers[i].Status.Storage.Blocks
			if first = max(first, left); first == left {
				began = time.Now()
			}
			n.say(fmt.Sprintf("%s hands its blocks over: %s", name, pace(first-left, first, "blocks", time.Since(began))))
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// awaitJoined waits until a joined server runs, and no tasks are left after its start.
func awaitJoined(cmd *cobra.Command, a *daemon.Access, name string) error {
	ctx := cmd.Context()
	n := newNarrator(ctx, cmd.ErrOrStderr())
	defer n.stop()
	ticker := time.NewTicker(leftEvery)
	defer ticker.Stop()
	for {
		h := daemon.Judge(a.Name(), a.Status(ctx), a.Cluster())
		i := slices.IndexFunc(h.Servers, func(s daemon.ServerHealth) bool { return s.Name == name })
		switch {
		case i < 0 || h.Servers[i].State == "down":
			n.say("waiting for the start of " + name)
		case h.Settled():
			return nil
		case h.Servers[i].Storage != nil:
			n.say(fmt.Sprintf("%s runs and has %d blocks; the cluster has %d problems and %d tasks after starts, see 'globalfs status'",
				name, h.Servers[i].Storage.Blocks, len(h.Problems), len(h.Starting)))
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return fmt.Errorf("interrupted: %s is in the cluster all the same: 'globalfs status' shows it", name)
		}
	}
}
