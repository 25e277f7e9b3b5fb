package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/globalfs/globalfs/internal/block/region"
	"github.com/globalfs/globalfs/internal/identity"
	"github.com/globalfs/globalfs/internal/server"
	"github.com/globalfs/globalfs/internal/topology"
	"github.com/globalfs/globalfs/internal/transport"
)

// Operation is what a server itself can be asked, beside its replicas and its storage node.
type Operation string

// The operations. What changes the cluster needs an admin's certificate.
const (
	Describe    Operation = "describe" // -> Description; anybody's
	Status      Operation = "status"   // -> ServerStatus; anybody's
	TellNumbers Operation = "numbers"  // Numbers -> Numbers, those that were known before; of the server itself
	Digests     Operation = "digests"  // -> DigestsStatus; anybody's

	Join       Operation = "join"        // Region Address -> Changed: a new server gets a name there
	Drain      Operation = "drain"       // Server -> Changed: it hands its blocks back, and its replicas move to others of its region
	Remove     Operation = "remove"      // Server -> Changed: one that is gone for ever is taken out without being asked
	MoveLeader Operation = "move-leader" // Partition -> Changed: the replica on the asked server leads
	Revoke     Operation = "revoke"      // Role Server Undo -> Changed: certificates of a process are refused from now on
	Replace    Operation = "replace"     // Partition Server To -> Changed: a replica moves to another server, or to an empty disk of the same
	Debug      Operation = "debug"       // -> DebugReport
	Backup     Operation = "backup"      // Partition Backup -> BackupReply: the state of a partition at a consistent cut
)

// Request is one question, as JSON.
type Request struct {
	Op        Operation       `json:"op"`
	Region    topology.Region `json:"region,omitempty"`
	Server    string          `json:"server,omitempty"`
	To        string          `json:"to,omitempty"`
	Address   string          `json:"address,omitempty"`
	Partition uint16          `json:"partition,omitempty"`
	Role      identity.Role   `json:"role,omitempty"` // of the process named Server
	Undo      bool            `json:"undo,omitempty"`
	// AcceptLoss of Replace: replicas that have lost power, and have no vote, count as those that would stay.
	AcceptLoss bool           `json:"accept_loss,omitempty"`
	Backup     *BackupRequest `json:"backup,omitempty"`
	Numbers    *Numbers       `json:"numbers,omitempty"`
}

// Description is what a process must know of a cluster to use it.
type Description struct {
	Server  string          `json:"server"` // who answers
	Region  topology.Region `json:"region"` // where it is
	Version uint64          `json:"version"`
	Spec    string          `json:"spec"` // of topology, as YAML
	// Revoked is apart from Spec, which clients of older versions read strictly.
	Revoked []topology.Revocation `json:"revoked,omitempty"`
}

// ServerStatus is what a server says of itself.
type ServerStatus struct {
	Name     string          `json:"name"`
	Region   topology.Region `json:"region"`
	Address  string          `json:"address"`
	Build    string          `json:"build"`
	Started  time.Time       `json:"started"`
	Version  uint64          `json:"version"`            // of the cluster's description that it knows
	Registry string          `json:"registry,omitempty"` // what keeps it from the registry; empty: nothing
	Replicas []ReplicaStatus `json:"replicas"`
	// Stopped are the replicas that do not run here although they should.
	Stopped    []StoppedReplica `json:"stopped,omitempty"`
	Damaged    []DamagedStatus  `json:"damaged,omitempty"`
	Digests    []ReplicaDigests `json:"digests,omitempty"`    // of the replicas that run here
	Unanswered []Unanswered     `json:"unanswered,omitempty"` // partitions that do not answer this server
	Storage    *StorageServer   `json:"storage,omitempty"`
	Now        time.Time        `json:"now"` // the server's clock when it answered; zero: an older version
}

// StoppedReplica is a replica that does not run, and the reason.
type StoppedReplica struct {
	Partition uint16 `json:"partition"`
	Process   uint32 `json:"process"`
	State     string `json:"state"` // stopped, failing, catching-up
	Reason    string `json:"reason,omitempty"`
}

// DamagedStatus is a replica that does not run since its log or store is damaged.
type DamagedStatus struct {
	Partition uint16 `json:"partition"`
	Process   uint32 `json:"process"`
	Reason    string `json:"reason"`
	Waits     string `json:"waits,omitempty"` // why it is not replaced yet
}

// StorageServer is what a server says of its storage node.
type StorageServer struct {
	Name       string         `json:"name"`
	Datacenter string         `json:"datacenter"`
	State      string         `json:"state,omitempty"` // "leaving"; empty: it owns blocks
	Running    bool           `json:"running"`
	Blocks     uint64         `json:"blocks"`
	Bytes      uint64         `json:"bytes"`
	DeadBytes  uint64         `json:"dead_bytes"`     // of deleted blocks, until their segments are compacted
	Down       []string       `json:"down,omitempty"` // servers that it takes for down
	Status     *region.Status `json:"status,omitempty"`
}

// ReplicaStatus is what a replica says of itself.
type ReplicaStatus struct {
	Partition uint16 `json:"partition"`
	Process   uint32 `json:"process"`
	Leads     bool   `json:"leads"`
	Seated    bool   `json:"seated"`         // false: it does not take part yet
	Applied   uint64 `json:"applied"`        // commands of its partition
	Undecided int    `json:"undecided"`      // commands of several partitions that wait for others
	Histories uint64 `json:"histories"`      // how often the partition has lost entries that a client had seen
	AgeMS     int64  `json:"age_ms"`         // what it reads is not older
	Before    uint64 `json:"applied_before"` // commands that it had executed 10 s ago; 0: not known
	StillMS   int64  `json:"still_ms"`       // since Applied has changed
	Data      *Data  `json:"data,omitempty"` // of its partition, if it leads that
}

// Data is what the files of a partition hold, one copy of each block.
type Data struct {
	Blocks        uint64 `json:"blocks"`
	Bytes         uint64 `json:"bytes"`
	DroppedBlocks uint64 `json:"dropped_blocks"` // that no file needs any more, until they are collected
	DroppedBytes  uint64 `json:"dropped_bytes"`
}

// Changed tells what a change has made.
type Changed struct {
	Version uint64   `json:"version"` // of the description with it
	Server  string   `json:"server,omitempty"`
	Notes   []string `json:"notes,omitempty"` // for the operator
}

// maxRequest bounds what is decoded, in bytes.
const maxRequest = 64 << 10

// control answers what others ask the server itself: a transport.Handler.
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
		return s.description(), nil
	case Status:
		return s.Status(ctx), nil
	case Digests:
		return tellDigests(ctx, s.server), nil
	case TellNumbers:
		return s.rollbacks.hear(ctx, q.Numbers)
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
	case Revoke:
		return s.revoke(ctx, q)
	case Backup:
		return s.backup(ctx, q)
	case Debug:
		return s.debug()
	case MoveLeader:
		return Changed{Version: s.known.now.Load().spec.Version}, s.server.Lead(ctx, q.Partition)
	}
	return nil, fmt.Errorf("there is no operation %q: is this server of an older version?", q.Op)
}

// mayAdmin reports whether who asks may change the cluster. In a cluster without certificates everybody may:
// it listens on loopback only.
func mayAdmin(ctx context.Context) bool {
	who := asking(ctx)
	return who.Admin
}

// asking tells who makes a call. In a cluster without certificates everybody is one of its servers: it
// listens on loopback only.
func asking(ctx context.Context) server.Asker {
	peer, known := transport.PeerOf(ctx)
	if !known {
		return server.Asker{Server: true, Admin: true}
	}
	return server.Asker{Server: peer.Role == identity.Server, Admin: peer.Role == identity.Admin, Name: peer.Name, Authority: peer.Authority}
}

// caller asks a server at an address itself.
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
		return fmt.Errorf("%s: %s", address, remote.Text)
	case err != nil:
		return err // which names the address
	}
	if err := json.Unmarshal(reply, into); err != nil {
		return fmt.Errorf("%s: answer to %q: %w: is that a server of GlobalFS, of this version?", address, q.Op, err)
	}
	return nil
}
