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

// A replica of a version without delegations stops when it executes an entry that delegates a directory.
// Therefore a server announces in the registry, as a part of its presence, that it supports delegations. A
// mount may hold directories of a partition if all servers with a replica of the partition have announced
// that. The last announcement of a server that is down still counts, if the asked server knows it.

// knowsDelegations is the announcement, a line of Presence.Info.
const knowsDelegations = "knows delegations"

// delegates has the announcements of the other servers. Its methods may be called concurrently.
type delegates struct {
	registry registry.Presences // nil: servers announce nothing

	mu        sync.Mutex
	capable   map[string]bool // GUARDED_BY mu; by server: its last presence has the line
	checkedAt time.Time       // GUARDED_BY mu; time of the last answer of the registry
	complete  bool            // GUARDED_BY mu; at checkedAt all partitions had the announcements of all their servers
	checking  bool            // GUARDED_BY mu; a caller waits for the registry
}

// Times between two requests to the registry.
const (
	delegatesAgain  = 100 * time.Millisecond // if announcements are missing
	delegatesAnew   = 10 * time.Second       // otherwise
	delegatesAnswer = time.Second            // time limit of the registry
)

// partitions returns the partitions of which mounts may hold directories. One caller at a time asks the
// registry; other callers get the result of the last answer.
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

// ask reads the presences. If the registry does not answer, nothing changes. The caller holds mu, which ask
// releases while it waits.
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
