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
// that. The last announcement of a server that is down still counts, if the asked server knows it. In the
// same way a server announces that it supports numbers of grants (delegation.Revocation). Mounts request
// grants with numbers only in partitions of which all servers have announced this, and otherwise grants
// without.

// The announcements are lines of Presence.Info.
const (
	knowsDelegations = "knows delegations"
	numbersGrants    = "numbers grants"
)

// granting are the partitions that give directories to mounts.
type granting struct {
	all      []uint16
	numbered []uint16 // those whose grants may have numbers
}

// delegates has the announcements of the other servers. Its methods may be called concurrently.
type delegates struct {
	registry registry.Presences // nil: servers announce nothing

	mu        sync.Mutex
	lines     map[string][]string // GUARDED_BY mu; by server: the lines of its last presence
	checkedAt time.Time           // GUARDED_BY mu; time of the last answer of the registry
	complete  bool                // GUARDED_BY mu; at checkedAt all partitions had both announcements of all their servers
	checking  bool                // GUARDED_BY mu; a caller waits for the registry
}

// Times between two requests to the registry.
const (
	delegatesAgain  = 100 * time.Millisecond // if announcements are missing
	delegatesAnew   = 10 * time.Second       // otherwise
	delegatesAnswer = time.Second            // time limit of the registry
)

// partitions returns the partitions of which mounts may hold directories. One caller at a time asks the
// registry; other callers get the result of the last answer.
func (d *delegates) partitions(ctx context.Context, plan *topology.Cluster) (g granting) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if pause := time.Since(d.checkedAt); pause > delegatesAnew || !d.complete && pause > delegatesAgain {
		d.ask(ctx)
	}
	for i := range plan.Partitions {
		p := &plan.Partitions[i]
		if !d.haveAnnounced(p.Replicas, knowsDelegations) {
			continue
		}
		g.all = append(g.all, p.ID)
		if d.haveAnnounced(p.Replicas, numbersGrants) {
			g.numbered = append(g.numbered, p.ID)
		}
	}
	d.complete = len(g.numbered) == len(plan.Partitions)
	return g
}

// haveAnnounced reports whether the servers of all replicas have made an announcement. The caller holds mu.
func (d *delegates) haveAnnounced(replicas []topology.Replica, line string) bool {
	return !slices.ContainsFunc(replicas, func(r topology.Replica) bool { return !slices.Contains(d.lines[r.Server], line) })
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
	if d.lines == nil {
		d.lines = map[string][]string{}
	}
	for i := range all {
		d.lines[all[i].Name] = strings.Split(string(all[i].Info), "\n")
	}
}
