package mount

import (
	"fmt"

	"github.com/globalfs/globalfs/internal/client"
	"github.com/globalfs/globalfs/internal/topology"
)

// The attributes by which scripts and the command line ask a mount about a file, and tell it where one is to
// be. Every inode has them. They are not listed, so that no copy or archive takes them along. As for other
// names of no known kind, the kernel asks for permission to read the inode, or to write it.
const (
	XattrRegion     = "globalfs.region"     // get: a region, or Global; set on a directory: move it there; empty or removed: no rule any more
	XattrWhere      = "globalfs.where"      // get: a Where
	XattrInfo       = "globalfs.info"       // get: an Info
	XattrStale      = "globalfs.stale_ms"   // get: how old what is read of the inode here may be
	XattrToken      = "globalfs.token"      // get: what this mount has seen, as text
	XattrWait       = "globalfs.wait"       // set: returns when this mount shows all that the token's has seen
	XattrPlace      = "globalfs.place"      // get: the Rule of a directory; set: a Place; empty or removed: no rule any more
	XattrTask       = "globalfs.task"       // get: the Task that moves a directory; set: TaskPause or TaskResume
	XattrTasks      = "globalfs.tasks"      // get, of any inode: the Tasks of the whole tree
	XattrPlacements = "globalfs.placements" // get, of any inode: the Placements of the whole tree
	XattrSync       = "globalfs.sync"       // get, of any inode: a Synced, once all that this mount has written and seen is on disk
	XattrRegions    = "globalfs.regions"    // get, of any inode: the names of the regions
	XattrCounters   = "globalfs.counters"   // get, of any inode: the Counters
)

// Global stands for a region where something is replicated in all of them.
const Global = client.Global

// Values of XattrTask.
const (
	TaskPause  = "pause"
	TaskResume = "resume"
)

// Where says where an inode is, and why there.
type Where struct {
	Inode     uint64          `json:"inode"`
	Partition uint16          `json:"partition"`
	Region    topology.Region `json:"region"`
	Replicas  []Replica       `json:"replicas"`
	Leader    string          `json:"leader"` // its server; empty: none is known
	Why       string          `json:"why"`
	Rule      *Rule           `json:"rule,omitempty"`
	Task      *Task           `json:"task,omitempty"`
}

// Replica is one of those that keep an inode.
type Replica struct {
	Process uint32          `json:"process"`
	Server  string          `json:"server"`
	Region  topology.Region `json:"region"`
}

// Rule says where what is made in a directory goes: to a region, or by its name to one of several.
type Rule struct {
	Region topology.Region   `json:"region,omitempty"`
	Spread []topology.Region `json:"spread,omitempty"`
}

// Place asks for a Rule; with Move what is in the directory goes there too, in the background. An empty Rule
// removes the one there is.
type Place struct {
	Rule
	Move bool `json:"move"`
}

// Task is a directory whose content is being moved.
type Task struct {
	Inode  uint64          `json:"inode"`
	Path   string          `json:"path,omitempty"` // below the root of the tree, in lists; empty: not known, or not the user's
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

// PageOf names the rest of a list, XattrTasks or XattrPlacements, that does not fit into one attribute: what
// comes after the first so many. It is empty at the end.
func PageOf(list string, after int) string {
	if after == 0 {
		return list
	}
	return fmt.Sprintf("%s.%d", list, after)
}
