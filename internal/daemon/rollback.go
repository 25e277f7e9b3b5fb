package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/globalfs/globalfs/internal/identity"
	"github.com/globalfs/globalfs/internal/pause"
	"github.com/globalfs/globalfs/internal/registry"
	"github.com/globalfs/globalfs/internal/server"
	"github.com/globalfs/globalfs/internal/topology"
	"github.com/globalfs/globalfs/internal/transport"
	"github.com/globalfs/globalfs/internal/wal"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// rollbacks detects that the data directory of this server was rolled back, and keeps the numbers of other
// servers for the same check on their side.
type rollbacks struct {
	name, instance, dir string // of this server
	logger              *slog.Logger
	registry            registry.Marks
	credentials         *identity.Credentials    // keys that sign the numbers in the registry; nil: the numbers are not signed
	plan                func() *topology.Cluster // the newest description
	dial                func() *transport.Client

	peers  peers
	before []knownNumbers // numbers of this server that others knew before it started
}

// newRollbacks must be called after the instance of the data directory is known.
func (s *Server) newRollbacks() *rollbacks {
	r := &rollbacks{
		name: s.cfg.Name, instance: s.instance, dir: s.dir, logger: s.logger, registry: s.registry,
		plan: func() *topology.Cluster { return s.known.current.Load().cluster },
		dial: func() *transport.Client { return transport.Dial(s.transportConfig()) },
	}
	if (signature{s}).signs() {
		r.credentials = s.credentials
	}
	if err := r.peers.load(s.dir); err != nil {
		s.logger.Warn("the file with the numbers of other servers cannot be read: the numbers are collected again", "file", filepath.Join(s.dir, numbersFile), "error", err)
	}
	return r
}

// exchange stores the numbers that a server has sent, and returns the numbers of this server that were known
// before.
func (r *rollbacks) exchange(ctx context.Context, sent *Numbers) (Numbers, error) {
	if sent == nil {
		return Numbers{}, errors.New("numbers: none were given")
	}
	if err := sent.validate(); err != nil {
		return Numbers{}, err
	}
	if who := asking(ctx); !who.Server || who.Name != "" && who.Name != sent.Server {
		return Numbers{}, fmt.Errorf("only server %s itself may send its numbers", sent.Server)
	}
	plan := r.plan()
	if sent.Cluster != nil && !sent.Cluster.Equal(plan.Created) { // one of both learns from the answer that it is the old one
		return Numbers{Server: sent.Server, Instance: sent.Instance, Cluster: &plan.Created}, nil
	}
	if plan.Server(sent.Server) == nil {
		return Numbers{}, fmt.Errorf("the cluster has no server %q", sent.Server)
	}
	known := r.peers.exchange(sent, plan.ReplicasOn(sent.Server))
	known.Cluster = &plan.Created
	return known, nil
}

// neighbours returns the servers that share a partition with a server.
func neighbours(plan *topology.Cluster, server string) (all []topology.Server) {
	names := map[string]bool{server: true}
	for _, p := range plan.Partitions {
		if !slices.ContainsFunc(p.Replicas, func(own topology.Replica) bool { return own.Server == server }) {
			continue
		}
		for _, other := range p.Replicas {
			if !names[other.Server] {
				names[other.Server] = true
				all = append(all, *plan.Server(other.Server))
			}
		}
	}
	return all
}

// numbersPatience is the time limit for the registry or a server.
const numbersPatience = time.Second

// knownNumbers are the numbers of this server's data directory as another place knows them.
type knownNumbers struct {
	place, remedy string
	Numbers
}

// errOldCluster means that a newer cluster, made from a backup or by a recovery, has replaced the cluster of
// this server. The server must end, because the newer cluster uses the same process numbers. The registry
// also has this information, but may be out of reach.
var errOldCluster = errors.New("this data directory belongs to a cluster that another one has replaced: remove it, or move it away")

// askServers sends numbers to other servers, and returns the numbers of this server that they knew before.
func (r *rollbacks) askServers(ctx context.Context, via caller, n *Numbers, servers []topology.Server) (all []knownNumbers, err error) {
	ctx, cancel := context.WithTimeout(ctx, numbersPatience)
	defer cancel()
	created := r.plan().Created
	n.Cluster = &created
	var mu sync.Mutex
	var asking sync.WaitGroup
	for _, other := range servers {
		if other.Name == r.name {
			continue
		}
		asking.Go(func() {
			var known Numbers
			if err := ask(ctx, via, other.Address, &Request{Op: ExchangeNumbers, Numbers: n}, &known); err != nil {
				return // the server is out of reach, or has an older version
			}
			mu.Lock()
			defer mu.Unlock()
			if known.Cluster != nil && !known.Cluster.Equal(created) {
				if known.Cluster.After(created) {
					err = fmt.Errorf("%s: %w: server %s is of a cluster that was created at %s, and this one at %s", r.dir, errOldCluster, other.Name, known.Cluster, created)
				}
				return
			}
			all = append(all, knownNumbers{"server " + other.Name, "the entry of this server in the file " + numbersFile + " of server " + other.Name, known})
		})
	}
	asking.Wait()
	return all, err
}

// askRegistry returns the numbers of this server in the registry; nil: it has none, or is out of reach.
func (r *rollbacks) askRegistry(ctx context.Context) []knownNumbers {
	ctx, cancel := context.WithTimeout(ctx, numbersPatience)
	defer cancel()
	text, err := r.registry.Noted(ctx, r.name)
	if err != nil || text == nil {
		return nil
	}
	known := knownNumbers{place: "the registry", remedy: "the key numbers/" + r.name + " of the cluster in etcd"}
	if known.Numbers, err = r.readNote(text); err != nil {
		r.logger.Warn("the registry's numbers of this server are rejected, and are replaced", "error", err)
		return nil
	}
	return []knownNumbers{known}
}

// remember checks, before the replicas start, whether the data directory was rolled back: others then know of
// a later start or a longer log. It does not wait for servers that are out of reach.
func (r *rollbacks) remember(ctx context.Context) error {
	last, err := server.LastIncarnation(r.dir)
	if err != nil || last == 0 {
		return err
	}
	via := r.dial()
	known, err := r.askServers(ctx, via, &Numbers{Server: r.name, Instance: r.instance}, r.plan().Servers)
	r.closeClient(via)
	if err != nil {
		return err
	}
	highest := last
	var reason string
	for _, k := range append(known, r.askRegistry(ctx)...) {
		if k.Instance != r.instance {
			continue
		}
		if err := k.validate(); err != nil || k.Incarnation > last+maxStarts {
			r.logger.Error("numbers of this server are rejected: delete them there", "from", k.place, "delete", k.remedy, "incarnation", k.Incarnation, "here", last)
			continue
		}
		r.before = append(r.before, k)
		if k.Incarnation > highest {
			highest = k.Incarnation
			reason = fmt.Sprintf("%s knows start %d of the server with this data directory %s, which has counted %d: a copy or a snapshot was put back", k.place, k.Incarnation, r.dir, last)
		}
	}
	if reason == "" {
		return nil
	}
	r.logger.Error("the data directory was rolled back: its replicas are replaced as if the disk was lost", "dir", r.dir, "reason", reason)
	return server.NoteRollback(r.dir, highest, reason)
}

// wasFurther returns the evidence of others that the log of a process on this server was longer than position
// at; empty: there is none.
func (r *rollbacks) wasFurther(process multicast.ProcessID, at wal.Position) string {
	for _, k := range r.before {
		then, has := k.Logs[uint32(process)]
		switch {
		case !has || then.Compare(at) <= 0:
		case then.Segment > at.Segment+maxCheckpoints:
			r.logger.Error("numbers of a replica are rejected: delete them there", "process", process, "from", k.place, "delete", k.remedy, "position", then, "here", at)
		default:
			return fmt.Sprintf("%s knows that the log of process %d was at %d/%d, and it ends at %d/%d: a copy or a snapshot was put back",
				k.place, process, then.Segment, then.Batch, at.Segment, at.Batch)
		}
	}
	return ""
}

// sendEvery is the time between two messages with the numbers of this server to its neighbours. noteEvery is
// the minimum time between two writes of the numbers to the registry.
const (
	sendEvery = 2 * time.Second
	noteEvery = time.Minute
)

// begin sends the number of this start to others. It must return before the server makes any promise.
func (r *rollbacks) begin(ctx context.Context, incarnation uint64) error {
	via := r.dial()
	defer r.closeClient(via)
	_, err := r.send(ctx, via, incarnation, nil, true)
	return err
}

func (r *rollbacks) closeClient(via *transport.Client) {
	if err := via.Close(); err != nil {
		r.logger.Warn("connections to other servers cannot be closed", "error", err)
	}
}

// run sends the numbers of this server to others until ctx ends, and saves the numbers of others. The first
// round writes the positions to the registry: begin has written none. It returns errOldCluster if the server
// must end.
func (r *rollbacks) run(ctx context.Context, of *server.Server) error {
	via := r.dial()
	defer r.closeClient(via)
	var noted time.Time
	failing := false
	for pause.For(ctx, sendEvery) == nil {
		err := r.peers.save(r.dir)
		if err != nil && !failing {
			r.logger.Warn("the numbers of other servers cannot be kept: it is tried again", "dir", r.dir, "error", err)
		}
		failing = err != nil
		logs := map[uint32]wal.Position{}
		for process, at := range of.Positions(ctx) {
			logs[uint32(process)] = at
		}
		has, err := r.send(ctx, via, of.Incarnation(), logs, time.Since(noted) > noteEvery)
		if err != nil {
			return err
		}
		if has {
			noted = time.Now()
		}
	}
	return nil
}

// send sends the numbers to the neighbours and, if registry is set, writes them to the registry. It reports
// whether the registry has them.
func (r *rollbacks) send(ctx context.Context, via caller, incarnation uint64, logs map[uint32]wal.Position, registry bool) (has bool, err error) {
	n := Numbers{Server: r.name, Instance: r.instance, Incarnation: incarnation, Logs: logs}
	if _, err := r.askServers(ctx, via, &n, neighbours(r.plan(), r.name)); err != nil || !registry {
		return false, err
	}
	n.Cluster = nil
	text, err := r.writeNote(&n)
	if err != nil {
		return false, err
	}
	ctx, cancel := context.WithTimeout(ctx, numbersPatience)
	defer cancel()
	return r.registry.Note(ctx, r.name, text) == nil, nil
}

// checkAlone fails if another process answers as this server at its address in the description: then this
// process runs on a copy of the data directory, or the server was started twice.
func (s *Server) checkAlone(ctx context.Context, d *description) error {
	if s.cfg.Listener != nil { // this process has the address
		return nil
	}
	answers, err := s.askPeers(ctx, []topology.Server{*d.cluster.Server(s.cfg.Name)})
	if err != nil || answers[0].Error != "" || answers[0].Status.Name != s.cfg.Name {
		return err
	}
	return fmt.Errorf("it runs already: a process at %s answers as this server since %s. If %s is a copy of that one's data directory, delete it; if the server is to move, stop that process first, and do not start it there again",
		answers[0].Server.Address, answers[0].Status.Started.Format(time.RFC3339), s.dir)
}
