package daemon

import "github.com/globalfs/globalfs/internal/topology"

// Health is the state of a cluster as an operator wants to see it.
type Health struct {
	Cluster  string    `json:"cluster"`
	Version  uint64    `json:"version"` // of its description
	Healthy  bool      `json:"healthy"` // no problem is above INFO
	Problems []Problem `json:"problems"`
	// Starting are the tasks that servers still have to do after their start. They are no problems, but another
	// server should not be stopped meanwhile.
	Starting   []string          `json:"starting,omitempty"`
	Servers    []ServerHealth    `json:"servers"`
	Partitions []PartitionHealth `json:"partitions"`
}

// ServerHealth is one server.
type ServerHealth struct {
	Name     string          `json:"name"`
	Region   topology.Region `json:"region"`
	Address  string          `json:"address"`
	State    string          `json:"state"` // up, down, leaving
	Build    string          `json:"build,omitempty"`
	UpFor    int64           `json:"up_for_s,omitempty"` // seconds
	Replicas int             `json:"replicas"`
	Leads    int             `json:"leads"`
	Storage  *StorageServer  `json:"storage,omitempty"`
}

// PartitionHealth is one partition.
type PartitionHealth struct {
	ID       uint16          `json:"id"`
	Path     string          `json:"path"`
	Region   topology.Region `json:"region,omitempty"` // empty: global
	Leader   string          `json:"leader,omitempty"` // its server; empty: none just now, the next update or canary has one elected
	Replicas []ReplicaHealth `json:"replicas"`
	Applied  uint64          `json:"applied"`        // by the replica that is furthest
	Compared uint64          `json:"compared"`       // commands after which all replicas had the same state, when that was compared last
	Data     *Data           `json:"data,omitempty"` // as the leader knows it
}

// ReplicaHealth is one replica.
type ReplicaHealth struct {
	Server    string `json:"server"`
	Up        bool   `json:"up"`
	State     string `json:"state,omitempty"` // of one that does not run, if its server knows
	Lag       uint64 `json:"lag"`             // commands behind the replica that is furthest
	Undecided int    `json:"undecided"`       // commands of several partitions that wait for others
	AgeMS     int64  `json:"age_ms"`
}
