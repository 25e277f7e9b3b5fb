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

// mendAgain is the minimum time between two replacements of a damaged replica of the same partition. It keeps
// a disk that damages all writes from filling the description of the cluster with processes.
const mendAgain = 10 * time.Minute

// mending is the state of mend for one partition.
type mending struct {
	last    time.Time           // when a damaged replica of the partition was replaced here; zero: never
	process multicast.ProcessID // the last replaced process; its damage may still be reported for a while
	waits   string              // reason why the replica cannot be replaced now
}

// mendings holds the mending of each partition. Its methods may be called concurrently.
type mendings struct {
	mu          sync.Mutex
	byPartition map[uint16]mending // GUARDED_BY mu
}

func (m *mendings) get(partition uint16) mending {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.byPartition[partition]
}

func (m *mendings) set(partition uint16, now mending) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.byPartition == nil {
		m.byPartition = map[uint16]mending{}
	}
	m.byPartition[partition] = now
}

// mend replaces damaged replicas of this server until ctx ends. Another process on this server takes the
// place of each, and gets the state from the others, provided that these are a majority (D6). Without a
// majority the damaged files stay, and the replica does not run.
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
			if errors.Is(err, errReplaced) { // this server learns of it from the registry
				s.mending.set(d.Partition, mending{last: known.last, process: d.Process})
				continue
			}
			if err == nil {
				s.mending.set(d.Partition, mending{last: time.Now(), process: d.Process})
				continue
			}
			if known.waits == "" {
				s.logger.Error("a damaged replica cannot be replaced yet: trying again",
					"partition", d.Partition, "process", d.Process, "dir", filepath.Join(s.dir, topology.PartitionDir(d.Partition)), "error", err)
			}
			s.mending.set(d.Partition, mending{last: known.last, process: known.process, waits: err.Error()})
		}
	}
}

// replaceDamaged gives a damaged replica's place to another process on this server. It returns errReplaced if
// another process has the place already.
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
	s.logger.Warn("a damaged replica is replaced: another process takes its place here and takes over the state of the others; the damaged files are kept",
		"partition", damaged.Partition, "process", damaged.Process)
	return s.adoptNewer(d)
}

// errReplaced means that a replica was replaced already.
var errReplaced = errors.New("the replica was replaced already")

// damages returns the status of the damaged replicas on this server.
func (s *Server) damages() (all []DamagedStatus) {
	for _, d := range s.server.Damaged() {
		status := DamagedStatus{Partition: d.Partition, Process: uint32(d.Process), Reason: d.Reason}
		if waits := s.mending.get(d.Partition).waits; waits != "" {
			status.Waits = "; it is not replaced yet: " + waits
		}
		all = append(all, status)
	}
	return all
}
