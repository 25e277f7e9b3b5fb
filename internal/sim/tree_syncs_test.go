package sim

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
)

// TestTreeSyncs counts the syncs of logs with durability `os`, at all six replicas of two partitions
// together. An update of one partition costs none. The syncs for an inode that is made in another partition
// do not delay the answer (package cross, D3), though some may happen before it arrives.
func TestTreeSyncs(t *testing.T) {
	quiet := func(cfg *Config) { cfg.Faults, cfg.Gather = Faults{Longest: time.Millisecond}, time.Millisecond }
	r := treeRun(1, treeSetup{change: quiet, rage: time.Second, script: func(c *treeClient) {
		root := [2]posix.Ino{posix.MakeIno(1, 1), posix.MakeIno(2, 1)}
		c.pause(5 * time.Second)
		dir := c.make(root[0], "dir", posix.TypeDir|0o755)
		makes := func(name string) posix.Ino { return c.make(dir, name, posix.TypeRegular|0o644) }
		measure := func(what string, most int, do func()) {
			before := c.run.synced()
			do()
			answered := c.run.synced() - before
			c.pause(5 * time.Second)
			all := c.run.synced() - before
			t.Logf("%-40s %3d syncs before the answer, %3d in all", what, answered, all)
			require.LessOrEqual(t, all, most, what)
		}
		measure("a create", 0, func() { makes("a") })
		measure("a rename inside a partition", 0, func() {
			c.renameBy(meta.Command{Op: meta.OpRename, Ino: dir, Name: "a", NewParent: dir, NewName: "b"})
		})
		measure("a rename over two partitions", 24, func() {
			c.renameBy(meta.Command{Op: meta.OpRename, Ino: dir, Name: "b", NewParent: root[1], NewName: "c"})
		})
		place := meta.Command{Op: meta.OpPlace, Ino: dir, Data: (&meta.Rule{Spread: []uint16{2}, Region: "far"}).Append(nil), Target: 1}
		require.Equal(t, posix.OK, c.update(1, place, 1, 0).Code)
		measure("the first create over a boundary", 18, func() { makes("d") })
		for _, name := range []string{"a", "b"} {
			measure("a create over a boundary", 9, func() { require.EqualValues(t, 2, makes(name).Partition()) })
		}
	}})
	require.Empty(t, r.errs)
	require.True(t, r.clients[0].finished)
}

// synced is how often logs were synced so far.
func (r *tree) synced() (all int) {
	for _, n := range r.syncs {
		all += n
	}
	return all
}
