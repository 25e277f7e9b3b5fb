package daemon

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/globalfs/globalfs/internal/server"
	"github.com/globalfs/globalfs/internal/topology"
	"github.com/globalfs/globalfs/internal/transport"
)

// peerPatience is the time limit for the status of another server.
const peerPatience = 3 * time.Second

// errNoMajority means that a replica must not be replaced now.
var errNoMajority = errors.New("without it a partition would have no majority")

// mayGo fails if a partition would have no majority without the replicas in gone, which are to be replaced. A
// new replica takes part only after a majority of the old ones has agreed to the replacement and one of them
// has sent its state. Until then no other replica of the partition may be replaced. part returns the
// processes that take part; it is takingPart or isSeated.
func (s *Server) mayGo(ctx context.Context, plan *topology.Cluster, gone []topology.Replica, part func([]Answer) map[uint32]bool) error {
	if len(gone) == 0 {
		return nil
	}
	answers, err := s.askPeers(ctx, plan.Servers)
	if err != nil {
		return err
	}
	seated := part(answers)
	for _, p := range plan.Partitions {
		if !slices.ContainsFunc(p.Replicas, func(r topology.Replica) bool { return slices.Contains(gone, r) }) {
			continue
		}
		staying := 0
		for _, r := range p.Replicas {
			if seated[uint32(r.Process)] && !slices.Contains(gone, r) {
				staying++
			}
		}
		if quorum := len(p.Replicas)/2 + 1; staying < quorum {
			return fmt.Errorf("%w: partition %d (%s): %d of its %d replicas take part and would stay, %d are needed: start the servers that are down ('globalfs status' shows them), or let a new server join",
				errNoMajority, p.ID, p.Path, staying, len(p.Replicas), quorum)
		}
	}
	return nil
}

// takingPart returns the processes with a vote. A process that has lost power is seated, but has no vote
// until it has the state of others.
func takingPart(answers []Answer) map[uint32]bool {
	seated := isSeated(answers)
	for _, a := range answers {
		for _, r := range a.Status.Stopped {
			if r.State == string(server.StateAmnesiac) {
				seated[r.Process] = false
			}
		}
	}
	return seated
}

// isSeated returns the processes that are members, including those that have lost power and have no vote.
func isSeated(answers []Answer) map[uint32]bool {
	seated := map[uint32]bool{}
	for _, a := range answers {
		for _, r := range a.Status.Replicas {
			seated[r.Process] = r.Seated
		}
	}
	return seated
}

// askPeers asks servers of the cluster for their state.
func (s *Server) askPeers(ctx context.Context, servers []topology.Server) ([]Answer, error) {
	via := transport.Dial(s.transportConfig())
	answers := askAll(ctx, via, servers, peerPatience)
	return answers, via.Close()
}

// askAll asks servers for their state, at once.
func askAll(ctx context.Context, via caller, servers []topology.Server, patience time.Duration) []Answer {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	answers := make([]Answer, len(servers))
	var asking sync.WaitGroup
	for i, server := range servers {
		asking.Go(func() {
			answers[i].Server = server
			asked := time.Now()
			if err := ask(ctx, via, server.Address, &Request{Op: Status}, &answers[i].Status); err != nil {
				answers[i].Error = err.Error()
			}
			answers[i].Clock = readClock(asked, time.Now(), answers[i].Status.Now)
		})
	}
	asking.Wait()
	return answers
}
