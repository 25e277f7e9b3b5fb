package daemon

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/globalfs/globalfs/internal/pause"
	"github.com/globalfs/globalfs/internal/server"
	"github.com/globalfs/globalfs/internal/topology"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// mendAgain is how long a replica must have run in the place of a damaged one before that is replaced, too.
// A disk that damages all that is written to it does not fill the description of the cluster with processes.
const mendAgain = 10 * time.Minute

// mending is what mend knows of a damaged replica.
type mending struct {
	last    time.Time           // when a damaged replica of the partition was replaced here; zero: never
	process multicast.ProcessID // that was replaced last; it may be there for a while
	waits   string              // why it cannot be done now
}

// mendings are by partition. Their methods may be called concurrently.
type mendings struct {
	mu sync.Mutex
	of map[uint16]mending // GUARDED_BY mu
}

func (m *mendings) get(partition uint16) mending {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.of[partition]
}

func (m *mendings) set(partition uint16, now mending) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.of == nil {
		m.of = map[uint16]mending{}
	}
	m.of[partition] = now
}

// mend replaces damaged replicas of this server until ctx ends: another process on this server takes the
// place of each, and the state of the others, while these are a majority (D6). Without one the damaged files
// stay, and the replica does not run.
func (s *Server) mend(ctx context.Context) {
	for pause.For(ctx, patience) == nil {
		for _, d := range s.server.Damaged() {
			known := s.mending.get(d.Partition)
			if known.process == d.Process {
				continue
			}
			err := fmt.Errorf("the last one was damaged less than %v ago, too: is the disk or the memory of this host bad?", mendAgain)
			if time.Since(known.last) > mendAgain {
				err = s.replaceDamaged(ctx, d)
			}
			if ctx.Err() != nil {
				return
			}
			if errors.Is(err, errReplaced) { // the registry tells this server of it
				s.mending.set(d.Partition, mending{last: known.last, process: d.Process})
				continue
			}
			if err == nil {
				s.mending.set(d.Partition, mending{last: time.Now(), process: d.Process})
				continue
			}
			if known.waits == "" {
				s.logger.Error("a damaged replica cannot be replaced yet: trying on",
					"partition", d.Partition, "process", d.Process, "dir", filepath.Join(s.dir, fmt.Sprintf("partition-%d", d.Partition)), "error", err)
			}
			s.mending.set(d.Partition, mending{last: known.last, process: known.process, waits: err.Error()})
		}
	}
}

// replaceDamaged gives a damaged replica's place to another process here; errReplaced: another has it already.
func (s *Server) replaceDamaged(ctx context.Context, damaged server.Damage) error {
	d, err := s.edit(ctx, func(spec *topology.Spec, plan *topology.Cluster) error {
		replicas := plan.Partitions[damaged.Partition].Replicas
		i := slices.IndexFunc(replicas, func(r topology.Replica) bool { return r.Process == damaged.Process && r.Server == s.cfg.Name })
		if i < 0 {
			return errReplaced
		}
		if err := s.mayGo(ctx, plan, replicas[i:i+1], takingPart); err != nil {
			return err
		}
		spec.Replace(plan, damaged.Process, "")
		return nil
	})
	if err != nil {
		return err
	}
	s.logger.Warn("a damaged replica is replaced: another process takes its place here and takes over the state of the others; its files stay aside",
		"partition", damaged.Partition, "process", damaged.Process)
	return s.hear(d)
}

// errReplaced says that a replica was replaced already.
var errReplaced = errors.New("the replica was replaced already")

// damages tells of the damaged replicas here.
func (s *Server) damages() (all []DamagedStatus) {
	for _, d := range s.server.Damaged() {
		told := DamagedStatus{Partition: d.Partition, Process: uint32(d.Process), Reason: d.Reason}
		if waits := s.mending.get(d.Partition).waits; waits != "" {
			told.Waits = "; it is not replaced yet: " + waits
		}
		all = append(all, told)
	}
	return all
}
