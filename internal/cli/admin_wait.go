package cli

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/globalfs/globalfs/internal/daemon"
	"github.com/globalfs/globalfs/internal/progress"
	"github.com/globalfs/globalfs/internal/topology"
)

// statusEvery is the time between two status calls about a server that leaves or joins.
const statusEvery = 500 * time.Millisecond

// awaitLeft waits until a drained server has left its region's storage ring.
func awaitLeft(cmd *cobra.Command, a *daemon.Access, name string) error {
	return metered(cmd, func(meter *progress.Meter) error {
		ctx := cmd.Context()
		ticker := time.NewTicker(statusEvery)
		defer ticker.Stop()
		meter.Count(0, "blocks", "%s hands its blocks over", name)
		for first := uint64(0); ; { // the highest number of blocks that the server has reported
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
				first = max(first, left)
				meter.Reach(first-left, first)
			}
			select {
			case <-ticker.C:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	})
}

// awaitJoined waits until a joined server runs, and no tasks are left after its start.
func awaitJoined(cmd *cobra.Command, a *daemon.Access, changed *daemon.Changed) error {
	name := changed.Server
	return metered(cmd, func(meter *progress.Meter) error {
		ctx := cmd.Context()
		ticker := time.NewTicker(statusEvery)
		defer ticker.Stop()
		for {
			h := daemon.Judge(a.Name(), a.Status(ctx), a.Cluster())
			if h.Settled() && isUp(h, name) {
				return nil
			}
			setJoinProgress(meter, h, name)
			select {
			case <-ticker.C:
			case <-ctx.Done():
				return fmt.Errorf("interrupted: %s is in the cluster all the same: 'globalfs status' shows it", name)
			}
		}
	})
}

// isUp reports whether a server runs.
func isUp(h *daemon.Health, name string) bool {
	i := slices.IndexFunc(h.Servers, func(s daemon.ServerHealth) bool { return s.Name == name })
	return i >= 0 && h.Servers[i].State != "down"
}

// setJoinProgress sets the progress of a server that joins: the number of its blocks, of a total that is the
// mean of the region's servers.
func setJoinProgress(meter *progress.Meter, h *daemon.Health, name string) {
	i := slices.IndexFunc(h.Servers, func(s daemon.ServerHealth) bool { return s.Name == name })
	switch {
	case !isUp(h, name):
		meter.Begin("waiting for the start of %s", name)
		return
	case h.Servers[i].Storage == nil || h.Servers[i].Storage.Status == nil:
		meter.Begin("%s runs", name)
		return
	}
	sum, servers := uint64(0), uint64(0)
	for _, s := range h.Servers {
		if s.Region == h.Servers[i].Region && s.Storage != nil && s.Storage.Status != nil {
			sum, servers = sum+s.Storage.Blocks, servers+1
		}
	}
	meter.Count(sum/servers, "blocks", "%s takes its share over; the cluster has %d problems and %d tasks after starts", name, len(h.Problems), len(h.Starting))
	meter.Add(h.Servers[i].Storage.Blocks)
}
