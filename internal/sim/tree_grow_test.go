package sim

import (
	"encoding/binary"
	"slices"
	"testing"
	"time"

	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// addedGroup is that of a partition that is added to the shards of the region with partitions 1 and 2.
var addedGroup = multicast.Group{ID: 3, Members: []multicast.ProcessID{20, 21, 22}}

var grownShards = []uint16{1, 2, 3}

// TestTreeGrows: while the clients work, under all faults, a partition is added to a region. Some replicas
// learn of it as they run, and others when they start again.
func TestTreeGrows(t *testing.T) {
	reach := treeReach{}
	seeds(t, 40, func(seed uint64) error { return treeRun(seed, treeSetup{shards: true, grow: true}).judge(reach) })
	reach.require(t, learnedRunning, learnedStarting, spreadRunning, spreadStarting, madeInAdded, movedFromAdded, renamedAcross, madeAlone)
}

// TestTreeGrowsReplaced: the same, while replicas are lost for ever and replaced, and states are transferred.
func TestTreeGrowsReplaced(t *testing.T) {
	reach := treeReach{}
	seeds(t, 20, func(seed uint64) error {
		setup := treeTransfers(seed)
		setup.losses, setup.shards, setup.grow = 3, true, true
		return treeRun(seed, setup).judge(reach)
	})
	reach.require(t, learnedRunning, learnedStarting, madeInAdded, replacedOne, tookOver)
}

const (
	learnedRunning  treeMark = "a replica that ran learned of the group of a new partition"
	learnedStarting treeMark = "a replica that started knew it for the first time"
	spreadRunning   treeMark = "a replica that ran learned that directories go to the new partition"
	spreadStarting  treeMark = "a replica that started learned it"
	madeInAdded     treeMark = "inodes were made in a partition that was added"
	movedFromAdded  treeMark = "an inode moved out of it"
)

// growth is the addition of a partition, as the servers of the replicas have it on their disks (package
// daemon, D8): a step begins once all have taken the one before.
type growth struct {
	planned bool
	started bool
	knows   map[multicast.ProcessID]bool // the group
	spreads map[multicast.ProcessID]bool // that directories go there
}

// allGroups returns all groups, with the added one.
func allGroups() []multicast.Group {
	return append(treeGroups[:len(treeGroups):len(treeGroups)], addedGroup)
}

// knownBy returns the groups that a replica knows which starts, and the shards that it wants. The server of a
// replacement has the newest description.
func (g *growth) knownBy(p multicast.ProcessID) (groups []multicast.Group, shards []uint16) {
	groups = treeGroups
	if born := slices.ContainsFunc(allGroups(), func(g multicast.Group) bool { return slices.Contains(g.Members, p) }); g.planned && !born || g.started {
		g.knows[p] = true
	}
	if g.knows[p] {
		groups = allGroups()
	}
	if g.spreads[p] {
		shards = grownShards
	}
	return groups, shards
}

// startGrowth begins the addition after a while.
func (r *tree) startGrowth() {
	if !r.grow {
		return
	}
	r.growth.knows, r.growth.spreads = map[multicast.ProcessID]bool{}, map[multicast.ProcessID]bool{}
	r.later(time.Second, func() {
		r.growth.planned = true
		for _, group := range r.groups[:len(treeGroups)] {
			for seat := range group.members {
				r.later(2*time.Second, func() { r.learnGroup(group, seat) })
			}
		}
	})
}

func (r *tree) later(most time.Duration, f func()) {
	r.net.Schedule(r.net.Now()+r.net.between(0, most), f)
}

// learnGroup has the server of a seat learn of the new group: at once if the replica runs, or else when it
// starts, or later.
func (r *tree) learnGroup(group *treeGroup, seat int) {
	p := group.members[seat]
	n, up := r.net.Node(p).(*treeNode)
	switch {
	case up:
		r.reach[learnedRunning]++
		if err := n.AddGroups(allGroups()); err != nil {
			r.fail("replica %d: %w", p, err)
		}
	case r.net.percent(50):
		r.later(2*time.Second, func() { r.learnGroup(group, seat) })
		return
	default:
		r.reach[learnedStarting]++
	}
	r.growth.knows[p] = true
	r.startAdded()
}

// startAdded starts the new replicas once all others know their group.
func (r *tree) startAdded() {
	for _, group := range r.groups[:len(treeGroups)] {
		for _, p := range group.members {
			if !r.growth.knows[p] {
				return
			}
		}
	}
	if r.growth.started {
		return
	}
	r.growth.started = true
	for _, p := range addedGroup.Members {
		r.later(time.Second, func() { r.net.Start(p) })
	}
	r.later(time.Second, r.activate)
}

// activate has the servers of the region learn that directories go to the new partition, once its replicas
// run.
func (r *tree) activate() {
	for _, p := range addedGroup.Members {
		if n, up := r.net.Node(p).(*treeNode); !up || n.behind {
			r.later(time.Second, r.activate)
			return
		}
	}
	for _, group := range r.groups[1:] {
		for seat := range group.members {
			r.later(2*time.Second, func() { r.learnShards(group.members[seat]) })
		}
	}
}

// learnShards has the server of a replica learn that directories go to the new partition.
func (r *tree) learnShards(p multicast.ProcessID) {
	if n, up := r.net.Node(p).(*treeNode); up {
		r.reach[spreadRunning]++
		n.SpreadOver(grownShards)
		r.net.processes[p].wake()
	} else {
		r.reach[spreadStarting]++
	}
	r.growth.spreads[p] = true
}

// grown reports whether the addition is complete, and records its outcome.
func (r *tree) grown() bool {
	if !r.grow {
		return true
	}
	for _, group := range r.groups[1:] {
		for _, p := range group.members {
			if n, up := r.net.Node(p).(*treeNode); !up || n.behind || n.Spread() != len(grownShards) {
				return false
			}
		}
	}
	for partition, group := range r.groups {
		inodes := r.disks[group.members[0]].keys.Scan([]byte{prefixInode}, []byte{prefixInode + 1})
		for key := range inodes {
			home := posix.Ino(binary.BigEndian.Uint64(key[1:])).Partition()
			switch {
			case partition == int(addedGroup.ID):
				r.reach[madeInAdded]++
			case home == uint16(addedGroup.ID):
				r.reach[movedFromAdded]++
			}
		}
	}
	r.reach[madeInAdded]-- // the root
	return true
}

// prefixInode is the first byte of the keys of inodes (package meta).
const prefixInode = 2
