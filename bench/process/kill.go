package process

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/globalfs/globalfs/internal/pause"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// Roles that Kill knows.
const (
	RolePrimary  = "primary"  // of group 0, with a client of its own
	RoleFollower = "follower" // of group 0, without a client
	RoleSender   = "sender"   // a follower of group 0 with a client
)

// Death is the effect of a kill on the other replicas, and the recovery of the victim.
type Death struct {
	Shape       string              `json:"shape"`
	Outstanding int                 `json:"outstanding"`
	Role        string              `json:"role"`
	Victim      multicast.ProcessID `json:"victim"`
	KilledAfter time.Duration       `json:"killed_after_ns"`
	// Gaps are the longest times without a delivery of each other replica, from shortly before the kill to
	// the restart.
	Gaps map[multicast.ProcessID]time.Duration `json:"gaps_ns"`
	// CaughtUp is the time from the restart until no delivery is missing at any replica, without load.
	CaughtUp time.Duration `json:"caught_up_ns"`
	// Messages counts the messages delivered by each member of a group, the same in the same order.
	Messages map[multicast.GroupID]uint64 `json:"messages"`
	// Unknown counts the victim's messages under way at its end that no replica has delivered.
	Unknown uint64 `json:"unknown_outcome"`
}

// Kill ends one process by SIGKILL under load, at a random moment of cfg.Duration, and starts it again after
// cfg.Down, the longest time that the others may take to go on. The error reports messages that were lost,
// came twice or in different orders.
func Kill(ctx context.Context, cfg Config, role string) (d Death, err error) {
	k, err := start(ctx, &cfg, cfg.Shape.groups())
	if err != nil {
		return d, err
	}
	defer func() { err = errors.Join(err, k.close()) }()
	victim, clients := k.cast(role)
	d = Death{
		Shape: cfg.Shape.Name, Outstanding: cfg.Outstanding, Role: role, Victim: victim,
		Gaps: map[multicast.ProcessID]time.Duration{}, Messages: map[multicast.GroupID]uint64{},
	}
	if err := k.load(ctx, clients); err != nil {
		return d, err
	}
	d.KilledAfter = cfg.Warmup + rand.N(cfg.Duration)
	if err := pause.For(ctx, d.KilledAfter); err != nil {
		return d, err
	}
	if err := k.each(ctx, order{command: command{Mark: true}}, 0); err != nil {
		return d, err
	}
	submitted, completed := k.children[victim].last.Submitted, k.children[victim].last.Completed
	k.children[victim].kill()
	if err := pause.For(ctx, cfg.Down); err != nil {
		return d, err
	}
	if err := k.each(ctx, order{}, victim); err != nil {
		return d, err
	}
	for p := range k.all() {
		if p != victim {
			d.Gaps[p] = k.children[p].last.Gap
		}
	}
	restarted := time.Now()
	if err := k.restart(ctx, victim); err != nil {
		return d, err
	}
	if err := k.drain(ctx, 0); err != nil {
		return d, err
	}
	d.CaughtUp = time.Since(restarted)
	for _, g := range k.groups {
		d.Messages[g.ID] = k.children[g.Members[0]].last.Count
	}
	delivered := k.children[victim].last.Senders[victim]
	if delivered < completed {
		err = fmt.Errorf("replica %d had delivered %d messages of its own before it was killed, %d are left", victim, completed, delivered)
	}
	d.Unknown = max(submitted, delivered) - delivered
	return d, errors.Join(err, k.check())
}

// cast gives the victim of a role and the processes with a client: all but a victim that is a mere follower.
func (k *cluster) cast(role string) (victim multicast.ProcessID, clients []multicast.ProcessID) {
	members := k.groups[0].Members
	victim = map[string]multicast.ProcessID{RolePrimary: members[0], RoleFollower: members[1], RoleSender: members[2]}[role]
	for p := range k.all() {
		if (p != victim || role != RoleFollower) && len(clients) < k.cfg.Outstanding {
			clients = append(clients, p)
		}
	}
	return victim, clients
}
