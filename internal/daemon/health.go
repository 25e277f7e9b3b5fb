package daemon

import "github.com/globalfs/globalfs/internal/topology"

// Health is the state of a cluster for operators.
type Health struct {
	Cluster  string    `json:"cluster"`
	Version  uint64    `json:"version"` // of the description
	Healthy  bool      `json:"healthy"` // no problem is above INFO
	Problems []Problem `json:"problems"`
	// Starting are the tasks that servers still have to do after their start. They are not problems, but no
	// other server should be stopped until they are done.
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
	Links    []LinkStatus    `json:"links,omitempty"` // connections of the other servers to this one
}

// PartitionHealth is one partition.
type PartitionHealth struct {
	ID       uint16          `json:"id"`
	Path     string          `json:"path"`
	Region   topology.Region `json:"region,omitempty"` // empty: global
	State    string          `json:"state,omitempty"`  // "starting": no directory goes there yet; empty: active
	Spread   int             `json:"spread,omitempty"` // partitions over which its new directories spread; 0: not known
	Order    string          `json:"order"`            // primcast or tram
	Leader   string          `json:"leader,omitempty"` // its server; empty: no leader now, the next update or canary makes the replicas elect one
	Replicas []ReplicaHealth `json:"replicas"`
	Applied  uint64          `json:"applied"`        // by the most advanced replica
	Compared uint64          `json:"compared"`       // commands after which all replicas had the same state, by the last comparison
	Data     *Data           `json:"data,omitempty"` // from the leader
}

// ReplicaHealth is one replica.
type ReplicaHealth struct {
	Server    string  `json:"server"`
	Up        bool    `json:"up"`
	State     string  `json:"state,omitempty"` // of a replica that does not run, if its server knows it
	Lag       uint64  `json:"lag"`             // commands behind the most advanced replica
	Undecided int     `json:"undecided"`       // commands of several partitions that wait for others
	AgeMS     int64   `json:"age_ms"`
	Memory    *Memory `json:"memory,omitempty"` // of a partition that TRAM orders
}
