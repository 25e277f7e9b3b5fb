package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/globalfs/globalfs/internal/block/region"
	"github.com/globalfs/globalfs/internal/identity"
	"github.com/globalfs/globalfs/internal/server"
	"github.com/globalfs/globalfs/internal/topology"
	"github.com/globalfs/globalfs/internal/transport"
)

// Operation is the kind of a request to the server itself, as opposed to requests to its replicas and its
// storage server.
type Operation string

// The operations. Each comment has the form: fields of the Request -> result. Changes of the cluster require
// an administrator's certificate.
const (
	Describe        Operation = "describe" // -> Description; for all callers
	Status          Operation = "status"   // -> ServerStatus; for all callers
	ExchangeNumbers Operation = "numbers"  // Numbers -> Numbers, the previously known ones; only for the server that they describe
	Digests         Operation = "digests"  // -> DigestsStatus; for all callers

	Join       Operation = "join"        // Region Address -> Changed: a new server gets a name in the region
	Drain      Operation = "drain"       // Server -> Changed: its blocks and its replicas move to other servers of its region
	Remove     Operation = "remove"      // Server -> Changed: a permanently lost server is removed from the description
	MoveLeader Operation = "move-leader" // Partition -> Changed: the replica on the called server becomes the leader
	Revoke     Operation = "revoke"      // Role Server Undo -> Changed: the present certificates of a process become invalid
	Replace    Operation = "replace"     // Partition Server To -> Changed: a replica moves to another server, or to an empty disk of the same
	// AddPartition: Region Servers -> Changed: the region, or if it is empty the global level, gets one more
	// partition.
	AddPartition Operation = "add-partition"
	Debug        Operation = "debug"       // -> DebugReport
	TraceStart   Operation = "trace-start" // TraceFor -> TraceStarted: the server records the turns of its replicas
	TraceStop    Operation = "trace-stop"  // -> trace.Recording
	Backup       Operation = "backup"      // Partition Backup -> BackupReply: the state of a partition at a consistent cut
)

// Request is a request to the server itself, encoded as JSON.
type Request struct {
	Op        Operation       `json:"op"`
	Region    topology.Region `json:"region,omitempty"`
	Server    string          `json:"server,omitempty"`
	To        string          `json:"to,omitempty"`
	Servers   []string        `json:"servers,omitempty"` // servers of the replicas of a new partition; empty: the called server chooses
	Address   string          `json:"address,omitempty"`
	Partition uint16          `json:"partition,omitempty"`
	Role      identity.Role   `json:"role,omitempty"` // role of the process with the name Server
	Undo      bool            `json:"undo,omitempty"`
	// AcceptLoss, for Replace, makes replicas that have lost power and have no vote count as part of the
	// remaining majority.
	AcceptLoss bool           `json:"accept_loss,omitempty"`
	TraceFor   time.Duration  `json:"trace_for,omitempty"` // maximum duration of the recording, in nanoseconds; at most trace.MaxTime
	Backup     *BackupRequest `json:"backup,omitempty"`
	Numbers    *Numbers       `json:"numbers,omitempty"`
}

// Description has the information that a process needs to use a cluster.
type Description struct {
	Server  string          `json:"server"` // name of the server that answers
	Region  topology.Region `json:"region"` // region of that server
	Version uint64          `json:"version"`
	Spec    string          `json:"spec"` // the description of the cluster, as YAML
	// Revoked is not a part of Spec, because clients of older versions refuse unknown keys in Spec.
	Revoked []topology.Revocation `json:"revoked,omitempty"`
	// InMemory means that the servers are parts of one process and communicate in its memory. Other
	// processes can make only control calls.
	InMemory bool `json:"in_memory,omitempty"`
	// Delegates are the partitions of which a mount may hold directories, because all servers of their
	// replicas support that.
	Delegates []uint16 `json:"delegates,omitempty"`
	// NumberedGrants are those of Delegates that may number the grants of such directories.
	NumberedGrants []uint16 `json:"numbered_grants,omitempty"`
}

// sameCluster reports whether two answers describe the cluster with the same words.
func (d *Description) sameCluster(other *Description) bool {
	return d.Version == other.Version && d.Spec == other.Spec && slices.Equal(d.Revoked, other.Revoked)
}

// ServerStatus is the state of a server.
type ServerStatus struct {
	Name     string          `json:"name"`
	Region   topology.Region `json:"region"`
	Address  string          `json:"address"`
	Build    string          `json:"build"`
	Started  time.Time       `json:"started"`
	Version  uint64          `json:"version"`            // version of the description of the cluster that the server has
	Applied  uint64          `json:"applied,omitempty"`  // version that all parts of the server have adopted; 0: the server has an older version of the program
	Growth   *Growth         `json:"growth,omitempty"`   // the partition that is being added; nil: none
	Registry string          `json:"registry,omitempty"` // error of the registry; empty: there is none
	Replicas []ReplicaStatus `json:"replicas"`
	// Stopped are the replicas that should run on this server and do not.
	Stopped    []StoppedReplica `json:"stopped,omitempty"`
	Damaged    []DamagedStatus  `json:"damaged,omitempty"`
	Digests    []ReplicaDigests `json:"digests,omitempty"`    // of the replicas that run on this server
	Unanswered []Unanswered     `json:"unanswered,omitempty"` // partitions that do not answer this server
	Storage    *StorageServer   `json:"storage,omitempty"`
	Links      []LinkStatus     `json:"links,omitempty"`
	Now        time.Time        `json:"now"` // clock of the server when it answered; zero: the server has an older version of the program
}

// StoppedReplica is a replica that does not run, and the reason.
type StoppedReplica struct {
	Partition uint16 `json:"partition"`
	Process   uint32 `json:"process"`
	State     string `json:"state"` // stopped, failing, catching-up
	Reason    string `json:"reason,omitempty"`
}

// DamagedStatus is a replica that does not run because its log or store is damaged.
type DamagedStatus struct {
	Partition uint16 `json:"partition"`
	Process   uint32 `json:"process"`
	Reason    string `json:"reason"`
	Waits     string `json:"waits,omitempty"` // reason why the replica is not replaced yet
}

// StorageServer is the state of the storage server of a server.
type StorageServer struct {
	Name       string         `json:"name"`
	Datacenter string         `json:"datacenter"`
	State      string         `json:"state,omitempty"` // "leaving"; empty: it owns blocks
	Running    bool           `json:"running"`
	Blocks     uint64         `json:"blocks"`
	Bytes      uint64         `json:"bytes"`
	DeadBytes  uint64         `json:"dead_bytes"`     // bytes of deleted blocks whose segments are not compacted yet
	Down       []string       `json:"down,omitempty"` // servers that this one considers down
	Status     *region.Status `json:"status,omitempty"`
}

// ReplicaStatus is the state of a replica.
type ReplicaStatus struct {
	Partition uint16  `json:"partition"`
	Process   uint32  `json:"process"`
	Leads     bool    `json:"leads"`
	Seated    bool    `json:"seated"`           // false: it does not take part yet
	Applied   uint64  `json:"applied"`          // commands of its partition
	Undecided int     `json:"undecided"`        // commands of several partitions that wait for others
	Histories uint64  `json:"histories"`        // number of times that the partition has lost entries that a client had seen
	AgeMS     int64   `json:"age_ms"`           // upper bound of the age of the data that it reads
	Before    uint64  `json:"applied_before"`   // commands that it had executed 10 s ago; 0: not known
	StillMS   int64   `json:"still_ms"`         // since the last change of Applied
	Spread    int     `json:"spread,omitempty"` // partitions over which new directories spread; 0: not known
	Data      *Data   `json:"data,omitempty"`   // of its partition, if it is the leader
	Memory    *Memory `json:"memory,omitempty"` // of a partition that TRAM orders
}

// Memory describes the one-sided memory (package fabric) of a replica, if the protocol TRAM orders its
// partition (package tram).
type Memory struct {
	Fabrics     map[string]string `json:"fabrics"`     // tcp or shm, by server: the connections to the other replicas
	Slots       int               `json:"slots"`       // of each ring
	Used        int               `json:"used"`        // at the leader: slots in use in the fullest of the replicas' logs
	Credits     int               `json:"credits"`     // free slots for its proposals
	Revocations int               `json:"revocations"` // of the rights of others, since the replica began
}

// Data is the size of the contents of a partition's files, with one copy of each block.
type Data struct {
	Blocks        uint64 `json:"blocks"`
	Bytes         uint64 `json:"bytes"`
	DroppedBlocks uint64 `json:"dropped_blocks"` // blocks that no file contains any more and that are not collected yet
	DroppedBytes  uint64 `json:"dropped_bytes"`
}

// Changed is the result of a change.
type Changed struct {
	Version uint64   `json:"version"` // version of the changed description
	Server  string   `json:"server,omitempty"`
	Notes   []string `json:"notes,omitempty"` // messages for the operator
}

// maxRequest is the maximum size of a request in bytes.
const maxRequest = 64 << 10

// control answers requests to the server itself. It is a transport.Handler.
func (s *Server) control(ctx context.Context, request []byte) ([]byte, error) {
	if len(request) > maxRequest {
		return nil, fmt.Errorf("control request of %d bytes: at most %d", len(request), maxRequest)
	}
	var q Request
	if err := json.Unmarshal(request, &q); err != nil {
		return nil, fmt.Errorf("control request: %w", err)
	}
	answer, err := s.answer(ctx, &q)
	if err != nil {
		return nil, err
	}
	return json.Marshal(answer)
}

func (s *Server) answer(ctx context.Context, q *Request) (any, error) {
	switch q.Op {
	case Describe:
		return s.description(ctx), nil
	case Status, Digests:
		if err := s.inspections.wait(ctx); err != nil {
			return nil, err
		}
		if q.Op == Status {
			return s.Status(ctx), nil
		}
		return ownDigests(ctx, s.server), nil
	case ExchangeNumbers:
		return s.rollbacks.exchange(ctx, q.Numbers)
	}
	if !mayAdmin(ctx) {
		return nil, fmt.Errorf("%q needs the certificate of an admin: 'globalfs certs admin NAME' makes one", q.Op)
	}
	switch q.Op {
	case Join:
		return s.join(ctx, q)
	case Drain:
		return s.drain(ctx, q)
	case Remove:
		return s.remove(ctx, q)
	case Replace:
		return s.replace(ctx, q)
	case AddPartition:
		return growing{s}.add(ctx, q)
	case Revoke:
		return s.revoke(ctx, q)
	case Backup:
		return s.backup(ctx, q)
	case Debug:
		return s.debug()
	case TraceStart:
		s.server.Trace().Start(q.TraceFor)
		return TraceStarted{Now: time.Now(), Boot: server.BootID()}, nil
	case TraceStop:
		return s.server.Trace().Stop(), nil
	case MoveLeader:
		return Changed{Version: s.known.current.Load().spec.Version}, s.server.Lead(ctx, q.Partition)
	}
	return nil, fmt.Errorf("there is no operation %q: is this server of an older version?", q.Op)
}

// mayAdmin reports whether the caller may change the cluster. Without certificates every caller may, because
// such a cluster listens only on loopback addresses.
func mayAdmin(ctx context.Context) bool {
	who := asking(ctx)
	return who.Admin
}

// asking returns the caller of a request. Without certificates every caller counts as a server and an
// administrator, because such a cluster listens only on loopback addresses.
func asking(ctx context.Context) server.Asker {
	peer, known := transport.PeerOf(ctx)
	if !known {
		return server.Asker{Server: true, Admin: true}
	}
	return server.Asker{Server: peer.Role == identity.Server, Admin: peer.Role == identity.Admin, Name: peer.Name, Authority: peer.Authority}
}

// caller sends requests to the server at an address.
type caller interface {
	CallAddress(ctx context.Context, address string, request []byte) ([]byte, error)
}

// ask sends q to the server at an address and reads its answer.
func ask(ctx context.Context, via caller, address string, q *Request, into any) error {
	request, err := json.Marshal(q)
	if err != nil {
		return err
	}
	reply, err := via.CallAddress(ctx, address, request)
	var remote *transport.RemoteError
	switch {
	case errors.As(err, &remote):
		return errors.New(remote.Text) // an error of the request, which does not depend on the server
	case err != nil:
		return err // err names the address
	}
	if err := json.Unmarshal(reply, into); err != nil {
		return fmt.Errorf("%s: answer to %q: %w: is that a server of GlobalFS, of this version?", address, q.Op, err)
	}
	return nil
}
