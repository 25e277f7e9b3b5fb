package sim

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/globalfs/globalfs/internal/order"
	"github.com/globalfs/globalfs/internal/order/onesided"
	"github.com/globalfs/globalfs/pkg/multicast"
	"github.com/globalfs/globalfs/pkg/multicast/primcast"
)

// TestTreeReplaced: replicas stop for ever with their disks, and new processes take their places, while cores
// retain little for absent members.
func TestTreeReplaced(t *testing.T) {
	reach := treeReach{}
	seeds(t, 60, func(seed uint64) error {
		setup := treeTransfers(seed)
		setup.losses = 6
		return treeRun(seed, setup).judge(reach)
	})
	reach.require(t, replacedOne, replacedTwice, replacedEarly, tookOver, sessionExpired, renamedAcross, madeAlone)
}

const (
	replacedOne    treeMark = "a new process was started for one that had stopped for ever"
	replacedTwice  treeMark = "the new process stopped for ever, too, and was replaced"
	replacedEarly  treeMark = "it did so before it was a member"
	replacedAlive  treeMark = "a replica that lived was replaced"
	retiredReplica treeMark = "it learned of it, in both orders"
	sentAway       treeMark = "it told a client so"
)

// TestTreeEvicted: most replaced replicas live on, under all other faults, until they learn of the
// replacement.
func TestTreeEvicted(t *testing.T) {
	reach := treeReach{}
	seeds(t, 20, func(seed uint64) error {
		setup := treeTransfers(seed)
		setup.losses, setup.alive = 6, true
		return treeRun(seed, setup).judge(reach)
	})
	reach.require(t, replacedOne, replacedTwice, replacedAlive, retiredReplica, sentAway, tookOver, renamedAcross)
}

// treeGroup is the group of a partition, as the operator has noted it.
type treeGroup struct {
	run      *tree
	born     *multicast.Group
	members  []multicast.ProcessID // by seat
	replaced []multicast.Replacement
	left     map[multicast.ProcessID]int // the seats of replaced replicas that live
	vacant   bool                        // a replica has stopped for ever, and its successor has not started
	last     int                         // the seat that was replaced last
}

func newTreeGroup(r *tree, born *multicast.Group) *treeGroup {
	return &treeGroup{run: r, born: born, members: slices.Clone(born.Members), left: map[multicast.ProcessID]int{}}
}

func (g *treeGroup) partition() uint16 { return uint16(g.born.ID) }

// seat finds the group and the seat of a replica.
func (r *tree) seat(p multicast.ProcessID) (*treeGroup, int) {
	for _, g := range r.groups {
		if i := slices.Index(g.members, p); i >= 0 {
			return g, i
		}
		if i, ok := g.left[p]; ok {
			return g, i
		}
	}
	return nil, 0
}

// retire stops a replica for ever that has learned that it was replaced.
func (r *tree) retire(p multicast.ProcessID) {
	g, _ := r.seat(p)
	if _, left := g.left[p]; !left {
		r.fail("partition %d: replica %d has retired and was not replaced", g.partition(), p)
	}
	r.reach[retiredReplica]++
	r.net.Schedule(r.net.Now(), func() {
		if x := r.net.processes[p]; x.up {
			x.stop()
		}
		r.net.processes[p].away = true
	})
}

// complete reports whether all members are there: the last new one has the state that it needs to be counted.
func (g *treeGroup) complete() bool {
	if g.vacant {
		return false
	}
	if len(g.replaced) == 0 {
		return true
	}
	for p := range g.left {
		if !g.run.net.processes[p].away {
			return false
		}
	}
	fresh, ok := g.run.net.Node(g.members[g.last]).(*treeNode)
	if !ok || fresh.behind {
		return false
	}
	for _, p := range g.members {
		n, ok := g.run.net.Node(p).(*treeNode)
		if !ok || n.behind || !knows(n.local, g) || !knows(n.cross, g) ||
			!settled(fresh.local, n.local) || fresh.cross.Stats().Current != n.cross.Stats().Current {
			return false
		}
	}
	return true
}

// settled reports whether a new member takes part in the own order as another one does.
func settled(fresh, other order.Core) bool {
	if c, ok := fresh.(*onesided.Core); ok {
		return !c.Amnesiac()
	}
	return fresh.(*primcast.Core).Stats().Current == other.(*primcast.Core).Stats().Current
}

// knows reports whether a core has the present members of a group.
func knows(c order.Core, g *treeGroup) bool { return slices.Equal(c.Members(g.born.ID), g.members) }

// agrees demands that all replicas run and know the same members, in both orders.
func (g *treeGroup) agrees() error {
	for _, p := range g.members {
		n, ok := g.run.net.Node(p).(*treeNode)
		if !ok || n.behind {
			return fmt.Errorf("partition %d: replica %d does not run at the end", g.partition(), p)
		}
		if !knows(n.local, g) {
			return fmt.Errorf("partition %d: replica %d has %v for its members at the end, they are %v",
				g.partition(), p, n.local.Members(g.born.ID), g.members)
		}
		for _, other := range g.run.groups {
			if !knows(n.cross, other) {
				return fmt.Errorf("partition %d: replica %d has %v for the members of partition %d at the end, they are %v",
					g.partition(), p, n.cross.Members(other.born.ID), other.partition(), other.members)
			}
		}
	}
	return nil
}

// loseDisks stops replicas for ever, one after the other, and spares take their places.
func (r *tree) loseDisks(spares []multicast.ProcessID) {
	if len(spares) == 0 {
		return
	}
	r.net.Schedule(r.net.Now()+r.net.between(0, 3*time.Second), func() {
		if r.net.healed {
			return
		}
		g := r.groups[r.net.Rand().IntN(len(treeGroups))]
		switch seat := r.net.Rand().IntN(len(g.members)); {
		case g.vacant: // later
		case g.complete():
			g.lose(seat, spares[0])
			spares = spares[1:]
		case r.net.percent(50): // only the last new member, which is not complete yet, may stop
			g.lose(g.last, spares[0])
			spares = spares[1:]
		}
		r.loseDisks(spares)
	})
}

// lose stops the replica of a seat for ever, or lets it continue. It starts the spare after a random time.
func (g *treeGroup) lose(seat int, spare multicast.ProcessID) {
	net, old, member := g.run.net, g.members[seat], g.complete()
	if !slices.Contains(g.born.Members, old) {
		g.run.reach[replacedTwice]++
		if !g.complete() {
			g.run.reach[replacedEarly]++
		}
	}
	g.vacant = true
	if p := net.processes[old]; g.run.alive && member && net.percent(70) {
		g.run.reach[replacedAlive]++
		g.left[old] = seat
	} else {
		net.mark(Killed)
		if p.up {
			p.stop()
		}
		p.away = true
	}
	net.Schedule(net.Now()+net.between(0, 3*time.Second), func() { g.replace(seat, spare) })
}

// replace records the new replica of a seat, starts it, and restarts the others, so that they learn of it.
func (g *treeGroup) replace(seat int, spare multicast.ProcessID) {
	net := g.run.net
	g.run.reach[replacedOne]++
	g.replaced = append(g.replaced, multicast.Replacement{Old: g.members[seat], New: spare})
	g.members[seat], g.vacant, g.last = spare, false, seat
	net.Start(spare)
	for _, member := range g.members {
		if member == spare {
			continue
		}
		net.Schedule(net.Now()+net.between(0, 2*time.Second), func() {
			if p := net.processes[member]; p.up {
				p.stop()
				p.restart()
			}
		})
	}
}

// nearby gives a replica for a request: a member, or now and then a former member that a client still takes
// for one.
func (g *treeGroup) nearby(c *treeClient) multicast.ProcessID {
	if len(g.replaced) > 0 && g.run.alive && c.pick(4) == 0 {
		return g.replaced[c.pick(len(g.replaced))].Old
	}
	return g.members[c.pick(3)]
}
