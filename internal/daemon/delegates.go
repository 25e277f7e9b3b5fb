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

	mu        sync.Mutex
	capable   map[string]bool // GUARDED_BY mu; by server: its last presence has the line
	checkedAt time.Time       // GUARDED_BY mu
	complete  bool            // GUARDED_BY mu; all partitions had all servers then
	checking  bool            // GUARDED_BY mu; a caller waits for the registry
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
	if pause := time.Since(d.checkedAt); pause > delegatesAnew || !d.complete && pause > delegatesAgain {
		d.ask(ctx)
	}
	for _, p := range plan.Partitions {
		if !slices.ContainsFunc(p.Replicas, func(r topology.Replica) bool { return !d.capable[r.Server] }) {
			ids = append(ids, p.ID)
		}
	}
	d.complete = len(ids) == len(plan.Partitions)
	return ids
}

// ask reads the presences. Without an answer all stays as it was. The caller holds mu, which ask releases
// while it waits for the registry.
func (d *delegates) ask(ctx context.Context) {
	if d.registry == nil || d.checking {
		return
	}
	d.checking = true
	d.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, delegatesAnswer)
	defer cancel()
	all, err := d.registry.Alive(ctx)
	d.mu.Lock()
	d.checking, d.checkedAt = false, time.Now()
	if err != nil {
		return
	}
	if d.capable == nil {
		d.capable = map[string]bool{}
	}
	for i := range all {
		d.capable[all[i].Name] = slices.Contains(strings.Split(string(all[i].Info), "\n"), knowsDelegations)
	}
}
