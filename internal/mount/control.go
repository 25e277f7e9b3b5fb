package mount

import (
	"fmt"

	"github.com/globalfs/globalfs/internal/client"
	"github.com/globalfs/globalfs/internal/topology"
)

// Attributes by which scripts and the command line query a mount about a file and set the placement of
// directories. Every inode has them. They are not listed, so that no copy or archive includes them. As for
// other names of unknown kinds, the kernel checks that the user may read or write the inode.
const (
	XattrRegion     = "globalfs.region"     // get: a region, or Global; set on a directory: move it there; empty or removed: no rule any more
	XattrWhere      = "globalfs.where"      // get: a Where
	XattrInfo       = "globalfs.info"       // get: an Info
	XattrStale      = "globalfs.stale_ms"   // get: the largest age of reads of the inode through this mount
	XattrToken      = "globalfs.token"      // get: the causality token of this mount
	XattrWait       = "globalfs.wait"       // set: returns when this mount shows all updates that the token covers
	XattrPlace      = "globalfs.place"      // get: the Rule of a directory; set: a Place; empty or removed: no rule any more
	XattrTask       = "globalfs.task"       // get: the Task that moves a directory; set: TaskPause or TaskResume
	XattrTasks      = "globalfs.tasks"      // get, of any inode: the Tasks of the whole tree
	XattrPlacements = "globalfs.placements" // get, of any inode: the Placements of the whole tree
	XattrSync       = "globalfs.sync"       // get, of any inode: a Synced, once all written and seen updates are on disk
	XattrRegions    = "globalfs.regions"    // get, of any inode: the names of the regions
	XattrCounters   = "globalfs.counters"   // get, of any inode: the Counters
	XattrTrace      = "globalfs.trace"      // set to a duration, of any inode: record; get: stop, and a trace.Recording
)

// Global stands for the region of a partition with replicas in all regions.
const Global = client.Global

// Values of XattrTask.
const (
	TaskPause  = "pause"
	TaskResume = "resume"
)

// Where is the place of an inode, with the reason.
type Where struct {
	Inode     uint64          `json:"inode"`
	Partition uint16          `json:"partition"`
	Region    topology.Region `json:"region"`
	Replicas  []Replica       `json:"replicas"`
	Leader    string          `json:"leader"` // the server of the leader; empty: none is known
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

// Rule is the placement of new inodes in a directory: in one region, or by the names in one of several.
type Rule struct {
	Region topology.Region   `json:"region,omitempty"`
	Spread []topology.Region `json:"spread,omitempty"`
}

// Place requests a Rule. With Move the contents of the directory also move there, in the background. An empty
// Rule removes the current one.
type Place struct {
	Rule
	Move bool `json:"move"`
}

// Task is the background move of a directory with its contents.
type Task struct {
	Inode  uint64          `json:"inode"`
	Path   string          `json:"path,omitempty"` // below the root of the tree, in lists; empty: not known, or another user's
	Target topology.Region `json:"target"`
	Moved  uint64          `json:"moved"` // inodes so far
	Paused bool            `json:"paused"`
}

// Placement is a directory with a Rule.
type Placement struct {
	Inode  uint64          `json:"inode"`
	Path   string          `json:"path,omitempty"`
	Target topology.Region `json:"target"`
	Rule   Rule            `json:"rule"`
}

// PageOf returns the name of a page of a list, XattrTasks or XattrPlacements, that does not fit into one
// attribute. The page begins behind the first after entries. It is empty at the end.
func PageOf(list string, after int) string {
	if after == 0 {
		return list
	}
	return fmt.Sprintf("%s.%d", list, after)
}
