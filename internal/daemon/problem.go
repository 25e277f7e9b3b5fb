package daemon

import (
	"fmt"
	"slices"
	"strings"
)

// Level is the severity of a problem.
type Level string

// The levels. INFO does not make a cluster unhealthy: such a problem ends without an action, mostly after the
// start of a server.
const (
	LevelInfo Level = "INFO"
	LevelWarn Level = "WARN" // files are served, but redundancy or a part of the cluster is missing
	LevelErr  Level = "ERR"  // files are not served, or data is lost or wrong
)

// Problem is one problem of a cluster, in one line.
type Problem struct {
	Level Level  `json:"level"`
	Code  string `json:"code"` // one of the codes below, which are stable
	Text  string `json:"text"` // one line
	// CausedBy are the servers with a problem that explains this one.
	CausedBy []string `json:"caused_by,omitempty"`
	Details  []string `json:"details,omitempty"` // errors as the servers reported them
}

// String returns code and text.
func (p Problem) String() string { return p.Code + ": " + p.Text }

// Effect reports whether another problem explains this one, so that only the other one needs an action.
func (p Problem) Effect() bool { return len(p.CausedBy) > 0 && p.Level != LevelErr }

// Codes of problems.
const (
	ServerDown            = "SERVER_DOWN"
	RegistryAway          = "REGISTRY_AWAY"    // the registry is out of reach; files are still served
	ClocksDiffer          = "CLOCKS_DIFFER"    // two clocks differ by more than a second
	ReplicaDiverged       = "REPLICA_DIVERGED" // a replica has another state than the others
	ReplicaDamaged        = "REPLICA_DAMAGED"  // the log or store of a replica is damaged; it is replaced if possible
	ReplicaStopped        = "REPLICA_STOPPED"  // a replica does not run until its server is started again
	ReplicaFailing        = "REPLICA_FAILING"  // a replica has failed, and restarts after a wait
	ReplicaAmnesiac       = "REPLICA_AMNESIAC" // a replica has lost power, and has no vote yet
	PartitionBlocked      = "PARTITION_BLOCKED"
	PartitionNotAnswering = "PARTITION_NOT_ANSWERING" // a majority of the replicas runs, but the partition does not answer
	PartitionWeak         = "PARTITION_WEAK"          // a majority of the replicas runs, but others are missing
	ReplicaBehind         = "REPLICA_BEHIND"
	ServerBehind          = "SERVER_BEHIND"    // a server has not adopted the last change of the cluster
	PartitionAdding       = "PARTITION_ADDING" // a new partition is not used yet
	BlocksLost            = "BLOCKS_LOST"
	RepairPending         = "REPAIR_PENDING"
)

// causes lists all codes. A problem may be the cause of problems with later codes.
var causes = []string{
	ServerDown, RegistryAway, ClocksDiffer, ReplicaDiverged, ReplicaDamaged, ReplicaStopped, ReplicaFailing, ReplicaAmnesiac,
	PartitionBlocked, PartitionNotAnswering, PartitionWeak,
	ReplicaBehind, ServerBehind, PartitionAdding, BlocksLost, RepairPending,
}

// urgent are the codes of level ERR. Other problems are WARN, or INFO while a server starts.
var urgent = []string{ReplicaDiverged, ReplicaStopped, PartitionBlocked, PartitionNotAnswering, BlocksLost}

// levelOf returns the level of a code.
func levelOf(code string) Level {
	if slices.Contains(urgent, code) {
		return LevelErr
	}
	return LevelWarn
}

// maxNamed is the maximum number of names in the line of a problem; its details have all names.
const maxNamed = 6

// named lists names in one line.
func named(names []string) string {
	if len(names) <= maxNamed {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:maxNamed], ", "), len(names)-maxNamed)
}

// inOneLine makes one line of an error text.
func inOneLine(text string) string {
	var parts []string
	for line := range strings.SplitSeq(text, "\n") {
		if line = strings.TrimSpace(line); line != "" {
			parts = append(parts, line)
		}
	}
	return strings.Join(parts, "; ")
}
