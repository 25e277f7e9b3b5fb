package daemon

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/globalfs/globalfs/internal/topology"
	"github.com/globalfs/globalfs/internal/transport"
)

// peerPatience bounds how long another server may take to say how it is.
const peerPatience = 3 * time.Second

// errNoMajority says that a replica must not be replaced now.
var errNoMajority = errors.New("without it no majority of the partition's replicas would take part")

// mayGo fails if a partition would not have a majority without one of its replicas, which are to be replaced:
// who takes its place takes no part before a majority of the old ones has agreed to that and one has given
// its state away. Until then nothing else may be replaced there.
func (s *Server) mayGo(ctx context.Context, plan *topology.Cluster, gone []topology.Replica) error {
	if len(gone) == 0 {
		return nil
	}
	answers, err := s.askPeers(ctx, plan.Servers)
	if err != nil {
		return err
	}
	seated := map[uint32]bool{}
	for _, a := range answers {
		for _, r := range a.Status.Replicas {
			seated[r.Process] = r.Seated
		}
	}
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
			return fmt.Errorf("partition %d (%s): %d of its %d replicas take part and would stay, %d are needed: %w: 'globalfs status' shows when others do",
				p.ID, p.Path, staying, len(p.Replicas), quorum, errNoMajority)
		}
	}
	return nil
}

// askPeers asks servers of the cluster how they are.
func (s *Server) askPeers(ctx context.Context, servers []topology.Server) ([]Answer, error) {
	cfg, err := s.transportConfig()
	if err != nil {
		return nil, err
	}
	via := transport.Dial(cfg)
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
			if err := ask(ctx, via, server.Address, &Request{Op: Status}, &answers[i].Status); err != nil {
				answers[i].Error = err.Error()
			}
		})
	}
	asking.Wait()
	return answers
}
