package daemon

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/globalfs/globalfs/internal/registry"
	"github.com/globalfs/globalfs/internal/topology"
)

// A replica of a version without delegations stops at an entry that delegates a directory. So a server says
// in the registry, with its presence, that it knows delegations. A mount may hold directories of a partition
// if all servers with a replica of the partition have said so. A server that is away keeps what it has said
// last, as far as the asked server knows it.

// knowsDelegations is a line of Presence.Info.
const knowsDelegations = "knows delegations"

// delegates is what a server knows of the others. Its methods may be called concurrently.
type delegates struct {
	registry registry.Presences // nil: no server says anything

	mu     sync.Mutex
	knows  map[string]bool // GUARDED_BY mu; by server: its last presence has the line
	asked  time.Time       // GUARDED_BY mu
	whole  bool            // GUARDED_BY mu; all partitions had all servers then
	asking bool            // GUARDED_BY mu; a caller waits for the registry
}

// Times between two questions of the registry.
const (
	delegatesAgain  = 100 * time.Millisecond // if servers are missing
	delegatesAnew   = 10 * time.Second       // otherwise
	delegatesAnswer = time.Second            // the patience with the registry
)

// partitions returns the partitions of which mounts may hold directories. One caller at a time asks the
// registry; the others get what is known.
func (d *delegates) partitions(ctx context.Context, plan *topology.Cluster) (ids []uint16) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if pause := time.Since(d.asked); pause > delegatesAnew || !d.whole && pause > delegatesAgain {
		d.ask(ctx)
	}
	for _, p := range plan.Partitions {
		if !slices.ContainsFunc(p.Replicas, func(r topology.Replica) bool { return !d.knows[r.Server] }) {
			ids = append(ids, p.ID)
		}
	}
	d.whole = len(ids) == len(plan.Partitions)
	return ids
}

// ask reads the presences. Without an answer all stays as it was. The caller holds mu, which ask releases
// while it waits for the registry.
func (d *delegates) ask(ctx context.Context) {
	if d.registry == nil || d.asking {
		return
	}
	d.asking = true
	d.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, delegatesAnswer)
	defer cancel()
	all, err := d.registry.Alive(ctx)
	d.mu.Lock()
	d.asking, d.asked = false, time.Now()
	if err != nil {
		return
	}
	if d.knows == nil {
		d.knows = map[string]bool{}
	}
	for i := range all {
		d.knows[all[i].Name] = slices.Contains(strings.Split(string(all[i].Info), "\n"), knowsDelegations)
	}
}
