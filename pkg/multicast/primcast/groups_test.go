package primcast

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/pkg/multicast"
)

// groupI is added to the groups of a cluster.
var groupI = multicast.Group{ID: 7, Members: []multicast.ProcessID{7, 8, 9}}

// newGrowing starts the processes of g and h only.
func newGrowing(t testing.TB) *cluster {
	c := newCluster(t, growing)
	c.down[7] = true
	return c
}

func growing(cfg *Config) { cfg.Classes, cfg.HybridClock, cfg.CheckpointMin = true, true, 1 }

// add makes groupI known, and starts its processes.
func (c *cluster) add() {
	for id := multicast.ProcessID(1); id <= 6; id++ {
		require.NoError(c.t, c.proc(id).AddGroup(groupI))
		c.proc(id).cfg.Groups, c.proc(id).cfg.Founded = append(c.proc(id).cfg.Groups, groupI), 2
	}
}

func (c *cluster) startAdded() {
	c.procs = c.procs[:6]
	for id := multicast.ProcessID(7); id <= 9; id++ {
		p := newProc(c.t, id, growing, func(cfg *Config) {
			cfg.Groups, cfg.Founded, cfg.FetchAfter = append(cfg.Groups, groupI), 2, 5*tick
		})
		p.instant = c.proc(1).instant
		c.procs, c.down[id] = append(c.procs, p), false
	}
	for id := multicast.ProcessID(7); id <= 9; id++ {
		c.link(id)
	}
}

// Messages go to a group that was added while the others run, also after all processes have started again
// from logs that end before or after the addition.
func TestAddGroup(t *testing.T) {
	c := newGrowing(t)
	c.castFrom(1, 1, groupG.ID)
	c.castFrom(1, 2, groupG.ID, groupH.ID)
	c.run(30 * tick)
	c.has([]uint64{1, 2}, 1, 2, 3)
	c.add()
	c.restart(2) // from a log before the addition
	c.run(10 * tick)
	c.startAdded()
	c.run(10 * tick)
	c.castFrom(1, 3, groupG.ID, groupI.ID)
	c.castFrom(8, 1, groupH.ID, groupI.ID)
	c.run(30 * tick)
	c.has([]uint64{1, 2, 3}, 1, 2, 3)
	c.has([]uint64{3, 1}, 7, 8, 9)
	for id := multicast.ProcessID(1); id <= 9; id++ {
		c.restart(id)
	}
	c.run(100 * tick)
	c.castFrom(1, 4, groupG.ID, groupI.ID)
	c.castFrom(9, 1, groupG.ID, groupH.ID, groupI.ID)
	c.run(100 * tick)
	c.has([]uint64{1, 2, 3, 4, 1}, 1, 2, 3)
	c.has([]uint64{3, 1, 4, 1}, 7, 8, 9)
}

// A group is refused that cannot be added.
func TestAddGroupRefused(t *testing.T) {
	c := newGrowing(t)
	for want, g := range map[string]multicast.Group{
		"is 1 again":       {ID: groupG.ID, Members: []multicast.ProcessID{70}},
		"name 1 to":        {ID: 70},
		"is in groups":     {ID: 70, Members: []multicast.ProcessID{4}},
		"belongs to group": {ID: 70, Members: []multicast.ProcessID{8}},
	} {
		if want == "belongs to group" {
			q := c.proc(1).peer(8)
			q.group = c.proc(1).groups[groupH.ID]
		}
		require.ErrorContains(t, c.proc(1).AddGroup(g), want)
		require.Len(t, c.proc(1).groupIDs, 2)
	}
	fewer := newProc(t, 1, growing)
	c = newGrowing(t)
	c.add()
	require.ErrorContains(t, fewer.Replay(c.proc(1).Checkpoint()), "checkpoint of 3 groups: this process knows 2")
}
