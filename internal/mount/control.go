package mount

import (
	"fmt"

	"github.com/globalfs/globalfs/internal/client"
	"github.com/globalfs/globalfs/internal/topology"
)

// Control attributes: extended attributes by which scripts and the command line query a mount, and set the
// placement of directories. Every inode has them. listxattr does not return them, so that no copy or archive
// contains them. As for all attributes with an unknown prefix, the kernel checks only that the user may read
// or write the inode.
const (
	XattrRegion     = "globalfs.region"     // get: a region, or Global; set on a directory: new inodes in it go there, and the directory moves there; empty or removed: no rule
	XattrWhere      = "globalfs.where"      // get: a Where
	XattrInfo       = "globalfs.info"       // get: an Info
	XattrStale      = "globalfs.stale_ms"   // get: the maximum age of data in reads of the inode through this mount, in ms
	XattrToken      = "globalfs.token"      // get: the causality token of this mount
	XattrWait       = "globalfs.wait"       // set: returns when this mount shows all updates that the token covers
	XattrPlace      = "globalfs.place"      // get: the Rule of a directory; set: a Place; empty or removed: no rule
	XattrTask       = "globalfs.task"       // get: the Task that is moving a directory; set: TaskPause or TaskResume
	XattrTasks      = "globalfs.tasks"      // get, of any inode: the Tasks of the whole tree
	XattrPlacements = "globalfs.placements" // get, of any inode: the Placements of the whole tree
	XattrSync       = "globalfs.sync"       // get, of any inode: a Synced, once all written and seen updates are on disk
	XattrRegions    = "globalfs.regions"    // get, of any inode: the names of the regions
	XattrCounters   = "globalfs.counters"   // get, of any inode: the Counters
	XattrTrace      = "globalfs.trace"      // set to a duration, on any inode: record; get: stop, and return a trace.Recording
)

// Global names the global partition, which has replicas in all regions, as a region.
const Global = client.Global

// Values of XattrTask.
const (
	TaskPause  = "pause"
	TaskResume = "resume"
)

// Where is the place of an inode, and the reason for it.
type Where struct {
	Inode     uint64          `json:"inode"`
	Partition uint16          `json:"partition"`
	Region    topology.Region `json:"region"`
	Replicas  []Replica       `json:"replicas"`
	Leader    string          `json:"leader"` // server of the leader; empty: unknown
	Why       string          `json:"why"`
	Rule      *Rule           `json:"rule,omitempty"`
	Task      *Task           `json:"task,omitempty"`
}

// Replica is one of the replicas of an inode's partition.
type Replica struct {
	Process uint32          `json:"process"`
	Server  string          `json:"server"`
	Region  topology.Region `json:"region"`
}

// Rule is the placement of new inodes in a directory: in one region, or distributed over several by their
// names.
type Rule struct {
	Region topology.Region   `json:"region,omitempty"`
	Spread []topology.Region `json:"spread,omitempty"`
}

// Place requests a Rule for a directory. With Move, the contents of the directory also move, in the
// background. An empty Rule removes the present one.
type Place struct {
	Rule
	Move bool `json:"move"`
}

// Task is the background move of a directory and its contents.
type Task struct {
	Inode  uint64          `json:"inode"`
	Path   string          `json:"path,omitempty"` // below the root of the tree, only in lists; empty: unknown, or a directory of another user
	Target topology.Region `json:"target"`
	Moved  uint64          `json:"moved"` // number of inodes that were moved so far
	Paused bool            `json:"paused"`
}

// Placement is a directory with a Rule.
type Placement struct {
	Inode  uint64          `json:"inode"`
	Path   string          `json:"path,omitempty"`
	Target topology.Region `json:"target"`
	Rule   Rule            `json:"rule"`
}

// PageOf returns the name of a page of a list (XattrTasks or XattrPlacements) that does not fit into one
// attribute. The page begins after the first after entries. It is empty after the last entry.
func PageOf(list string, after int) string {
	if after == 0 {
		return list
	}
	return fmt.Sprintf("%s.%d", list, after)
}
