package daemon

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/globalfs/globalfs/internal/digest"
	"github.com/globalfs/globalfs/internal/metrics"
	"github.com/globalfs/globalfs/internal/pause"
	"github.com/globalfs/globalfs/internal/replica"
	"github.com/globalfs/globalfs/internal/server"
	"github.com/globalfs/globalfs/internal/topology"
	"github.com/globalfs/globalfs/internal/transport"
)

// DigestStatus is the digest of a replica's state after an entry of its partition's order.
type DigestStatus struct {
	Entry string `json:"entry"` // with the scheme of the digest: only digests of the same scheme are comparable
	Count uint64 `json:"count"` // the number of the entry
	Sum   string `json:"sum"`
}

// DigestsStatus is the digests of a server's replicas.
type DigestsStatus struct {
	Replicas []ReplicaDigests `json:"replicas"`
}

// ReplicaDigests are the last digests of a replica, the oldest first.
type ReplicaDigests struct {
	Partition uint16         `json:"partition"`
	Process   uint32         `json:"process"`
	Digests   []DigestStatus `json:"digests"`
}

func digestsOf(taken []replica.Digest) (all []DigestStatus) {
	for _, d := range taken {
		all = append(all, DigestStatus{Entry: fmt.Sprintf("%d.%d/%d", d.Entry.Sender, d.Entry.Seq, digest.Scheme), Count: d.Count, Sum: d.Sum.String()})
	}
	return all
}

// divergence is a place in the order of a partition after which replicas have different digests.
type divergence struct {
	entry   string
	count   uint64 // the highest number of the entry in any replica
	reports []reportedDigest
	odd     []topology.Replica // those that differ from the majority; without a majority all that reported a digest
	agreed  bool               // a majority of all replicas has the same digest
}

type reportedDigest struct {
	replica topology.Replica
	digest  DigestStatus
}

// compareDigests compares the digests of a partition's replicas. It returns the newest place at which they
// differ, nil if there is none, and the number of the newest entry after which all replicas had the same
// digest. Both depend on the set of the digests alone, and not on their order.
func compareDigests(p *topology.Partition, of func(topology.Replica) []DigestStatus) (found *divergence, same uint64) {
	places := map[string]*divergence{}
	for _, r := range p.Replicas {
		for _, d := range of(r) {
			at := places[d.Entry]
			if at == nil {
				at = &divergence{entry: d.Entry}
				places[d.Entry] = at
			}
			at.count = max(at.count, d.Count)
			at.reports = append(at.reports, reportedDigest{r, d})
		}
	}
	for _, at := range places {
		at.judge(len(p.Replicas)/2 + 1)
		if len(at.odd) == 0 && len(at.reports) == len(p.Replicas) {
			same = max(same, at.count)
		}
		if len(at.odd) > 0 && (found == nil || at.count > found.count || at.count == found.count && at.entry > found.entry) {
			found = at
		}
	}
	return found, same
}

// judge finds the replicas that differ.
func (d *divergence) judge(quorum int) {
	same := map[DigestStatus]int{}
	for _, t := range d.reports {
		same[t.digest]++
	}
	if len(same) < 2 {
		return
	}
	for _, t := range d.reports {
		d.agreed = d.agreed || same[t.digest] >= quorum
	}
	for _, t := range d.reports {
		if !d.agreed || same[t.digest] < quorum {
			d.odd = append(d.odd, t.replica)
		}
	}
}

// String describes the place and all digests.
func (d *divergence) String() string {
	var digests []string
	for _, t := range d.reports {
		digests = append(digests, fmt.Sprintf("%s has %s after %d entries", t.replica.Server, t.digest.Sum, t.digest.Count))
	}
	slices.Sort(digests)
	return fmt.Sprintf("after entry %s: %s", d.entry, strings.Join(digests, ", "))
}

// servers names the servers of the odd replicas.
func (d *divergence) servers() string {
	var names []string
	for _, r := range d.odd {
		names = append(names, r.Server)
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// LogDiverged is the message in the log of a server with a replica that differs from others.
const LogDiverged = "a replica here has another state than others of its partition"

// comparison compares the replicas of a server with the others of their partitions.
type comparison struct {
	server *Server

	mu         sync.Mutex
	divergent  map[uint16]bool   // GUARDED_BY mu; by partition with a replica on this server: it differs from others
	lastLogged map[uint16]string // GUARDED_BY mu; by partition: the text that was logged last
}

func newComparison(s *Server) *comparison {
	return &comparison{server: s, divergent: map[uint16]bool{}, lastLogged: map[uint16]string{}}
}

// run compares until ctx ends.
func (c *comparison) run(ctx context.Context) {
	via := transport.Dial(c.server.transportConfig())
	defer func() { _ = via.Close() }() // it only ends connections
	for {
		every := canaryEvery(len(c.server.known.current.Load().cluster.Servers))
		if pause.Between(ctx, 3*every/4, every) != nil {
			return
		}
		c.once(ctx, via)
	}
}

func (c *comparison) once(ctx context.Context, via caller) {
	s := c.server
	plan := s.known.current.Load().cluster
	servers := neighbours(plan, s.cfg.Name)
	digests := map[uint32][]DigestStatus{}
	for _, d := range append(askDigests(ctx, via, servers), ownDigests(ctx, s.server)) {
		for _, r := range d.Replicas {
			digests[r.Process] = r.Digests
		}
	}
	for i := range plan.Partitions {
		p := &plan.Partitions[i]
		here := slices.IndexFunc(p.Replicas, func(r topology.Replica) bool { return r.Server == s.cfg.Name })
		if here < 0 {
			c.forget(p.ID)
			continue
		}
		d, _ := compareDigests(p, func(r topology.Replica) []DigestStatus { return digests[uint32(r.Process)] })
		if c.isOdd(p, p.Replicas[here], d) && d.agreed {
			c.giveUp(ctx, plan, p, p.Replicas[here], d)
		}
	}
}

// giveUp stops the replica on this server; another process takes its place (mend). Its files are kept as
// evidence. giveUp does nothing while no majority would remain, or while the replacement is impossible; the
// next comparison tries again.
func (c *comparison) giveUp(ctx context.Context, plan *topology.Cluster, p *topology.Partition, here topology.Replica, d *divergence) {
	var err error
	s := c.server
	switch {
	case s.apart.Load() != nil:
		err = errors.New("the registry is unavailable")
	case time.Since(s.mending.get(p.ID).last) < mendAgain:
		err = fmt.Errorf("it was replaced less than %v ago, too: report this", mendAgain)
	default:
		err = s.mayGo(ctx, plan, []topology.Replica{here}, takingPart)
	}
	if err != nil {
		s.logger.Error("a replica here that has another state than the majority is not replaced now", "partition", p.ID, "process", here.Process, "error", err)
		return
	}
	s.server.Diverged(p.ID, here.Process, d.String())
}

// isOdd reports whether this server's replica of a partition has another state than others, and logs each
// difference once. d is nil if the replicas do not differ.
func (c *comparison) isOdd(p *topology.Partition, here topology.Replica, d *divergence) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	odd := d != nil && slices.Contains(d.odd, here)
	c.divergent[p.ID] = odd
	if !odd {
		delete(c.lastLogged, p.ID)
		return false
	}
	text := d.String()
	if c.lastLogged[p.ID] != text {
		c.lastLogged[p.ID] = text
		c.server.logger.Error(LogDiverged, "partition", p.ID, "process", here.Process, "majority_agrees", d.agreed, "digests", text)
	}
	return true
}

// forget drops the results for a partition that has no replica on this server any more.
func (c *comparison) forget(partition uint16) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.divergent, partition)
	delete(c.lastLogged, partition)
}

// askDigests fetches the digests of the replicas of servers, at once. The result is empty for a server that
// does not answer or has an older version.
func askDigests(ctx context.Context, via caller, servers []topology.Server) []DigestsStatus {
	ctx, cancel := context.WithTimeout(ctx, peerPatience)
	defer cancel()
	all := make([]DigestsStatus, len(servers))
	var asking sync.WaitGroup
	for i, server := range servers {
		asking.Go(func() {
			var reply DigestsStatus
			if ask(ctx, via, server.Address, &Request{Op: Digests}, &reply) == nil {
				all[i] = reply
			}
		})
	}
	asking.Wait()
	return all
}

// ownDigests returns the digests of a server's replicas.
func ownDigests(ctx context.Context, of *server.Server) (all DigestsStatus) {
	ctx, cancel := context.WithTimeout(ctx, statusPatience)
	defer cancel()
	for _, r := range of.Digests(ctx) {
		all.Replicas = append(all.Replicas, ReplicaDigests{Partition: r.Partition, Process: uint32(r.Process), Digests: digestsOf(r.Taken)})
	}
	return all
}

// report reports for each replica on this server whether it differs from others.
func (c *comparison) report(to metrics.Report) {
	self := c.server.self()
	if self == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for partition, odd := range c.divergent {
		value := 0.0
		if odd {
			value = 1
		}
		to.Value(metrics.ReplicaDiverged, value, string(self.Region), c.server.cfg.Name, fmt.Sprint(partition))
	}
}
