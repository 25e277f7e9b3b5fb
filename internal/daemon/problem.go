package daemon

import (
	"fmt"
	"slices"
	"strings"
)

// Level is the urgency of a problem.
type Level string

// The levels. INFO does not make a cluster unhealthy: it ends by itself, mostly after the start of a server.
const (
	LevelInfo Level = "INFO"
	LevelWarn Level = "WARN" // files are served, with less redundancy or with a part of the cluster missing
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

// Effect reports whether another problem explains this one, so that this one needs no action.
func (p Problem) Effect() bool { return len(p.CausedBy) > 0 && p.Level != LevelErr }

// Codes of problems.
const (
	ServerDown            = "SERVER_DOWN"
	RegistryAway          = "REGISTRY_AWAY"    // files are still served
	ClocksDiffer          = "CLOCKS_DIFFER"    // by more than a second
	ReplicaDiverged       = "REPLICA_DIVERGED" // it has another state than the others
	ReplicaDamaged        = "REPLICA_DAMAGED"  // its log or store; it is replaced if possible
	ReplicaStopped        = "REPLICA_STOPPED"  // until its server is started again
	ReplicaFailing        = "REPLICA_FAILING"  // it starts again after a while
	ReplicaAmnesiac       = "REPLICA_AMNESIAC" // it has lost power, and has no vote yet
	PartitionBlocked      = "PARTITION_BLOCKED"
	PartitionNotAnswering = "PARTITION_NOT_ANSWERING" // a majority of its replicas runs, and does not answer
	PartitionWeak         = "PARTITION_WEAK"          // a majority, but replicas are missing
	ReplicaBehind         = "REPLICA_BEHIND"
	ServerBehind          = "SERVER_BEHIND"    // it does not know the last change of the cluster
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

// urgent are the codes of level ERR. Other problems are warnings, or INFO while a server starts.
var urgent = []string{ReplicaDiverged, ReplicaStopped, PartitionBlocked, PartitionNotAnswering, BlocksLost}

// levelOf returns the level of a code.
func levelOf(code string) Level {
	if slices.Contains(urgent, code) {
		return LevelErr
	}
	return LevelWarn
}

// maxNamed is the maximum number of names in a line; all names are in the details.
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
