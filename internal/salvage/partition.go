package salvage

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/internal/cross"
	"github.com/globalfs/globalfs/internal/daemon"
	"github.com/globalfs/globalfs/internal/kv"
	"github.com/globalfs/globalfs/internal/replica"
	"github.com/globalfs/globalfs/internal/server"
	"github.com/globalfs/globalfs/internal/topology"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// part is the remaining state of a partition.
type part struct {
	keys      *kv.Store // the state that counts
	vector    ask.Vector
	short     bool
	backup    string // the backup with the state; empty: a log counts
	newborn   bool   // the state is the first one
	members   []Member
	decisions map[multicast.MessageID]cross.Decision
}

func (p *part) close() error {
	if p.keys == nil {
		return nil
	}
	return p.keys.Close()
}

// Member is a replica of a partition as its server has left it.
type Member struct {
	Server  string `json:"server"`
	Process uint32 `json:"process"`
	// Missing is the reason why the replica is of no use; empty: it was read.
	Missing string `json:"missing,omitempty"`
	// Doubt is the reason why its log may lack entries that it has acknowledged; empty: it lacks none.
	Doubt  string `json:"doubt,omitempty"`
	Epoch  uint64 `json:"epoch"`
	Length uint64 `json:"length"` // of the log in entries
	Chosen bool   `json:"chosen"` // its log counts
}

// readPartition reads the remaining replicas of a partition, and executes the log that counts.
func (s *Salvage) readPartition(ctx context.Context, p *topology.Partition) (_ *part, err error) {
	x := &part{decisions: map[multicast.MessageID]cross.Decision{}}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("partition %d (%s): %w", p.ID, p.Path, err), x.close())
		}
	}()
	best, good, logs := -1, map[multicast.ProcessID]bool{}, []*server.RemainingLog{}
	var winner *server.Remains
	for i, r := range p.Replicas {
		m := Member{Server: r.Server, Process: uint32(r.Process)}
		now, err := s.openReplica(p, i)
		if err != nil {
			m.Missing = err.Error()
			x.members = append(x.members, m)
			continue
		}
		m.Doubt, m.Epoch, m.Length = s.doubt(r.Server, now), now.Log.Epoch, now.Log.Length
		x.members = append(x.members, m)
		good[r.Process], logs = m.Doubt == "", append(logs, &now.Log)
		replica.Decisions(now.Log.Held(), x.decisions)
		loser := now
		if winner == nil || winner.Log.Compare(&now.Log) < 0 {
			loser, winner, best = winner, now, i
		}
		if loser != nil {
			if err := loser.Close(); err != nil {
				return x, err
			}
		}
	}
	switch {
	case winner == nil && p.State == topology.PartitionStarted:
		return x, s.readNewborn(p, x)
	case winner == nil:
		return x, s.readBackup(ctx, p, x)
	}
	x.keys, x.members[best].Chosen, x.short = winner.Keys, true, !server.Remember(logs, func(p multicast.ProcessID) bool { return good[p] })
	if err := winner.Replica.Finish(winner.Log.Complete(logs)); err != nil {
		return x, err
	}
	x.vector = winner.Replica.Vector()
	return x, nil
}

// readBackup takes the state of a partition without a survivor from a backup.
func (s *Salvage) readBackup(ctx context.Context, p *topology.Partition, x *part) (err error) {
	if s.options.Backup == nil {
		return fmt.Errorf("none of its replicas can be read: --lost-from REPOSITORY takes its state from a backup. %s", whyMissing(x.members))
	}
	if x.keys, err = kv.Open(filepath.Join(s.scratch, "backup", daemon.PartitionDir(p.ID)), kv.Options{}); err != nil {
		return err
	}
	m, err := s.options.Backup.ReadState(ctx, s.options.BackupID, string(s.plan.Identity()), p.ID, x.keys)
	if err != nil {
		return err
	}
	x.short, x.backup = true, m.ID
	x.vector, err = cross.StoredVector(x.keys)
	return err
}

// readNewborn makes the first state of a partition without a survivor that was being added. The cluster needs
// it: its number may be known to other partitions.
func (s *Salvage) readNewborn(p *topology.Partition, x *part) error {
	dir := filepath.Join(s.scratch, "newborn")
	if err := os.MkdirAll(filepath.Join(dir, daemon.PartitionDir(p.ID)), 0o700); err != nil {
		return err
	}
	first, err := server.OpenRemains(s.plan, p.ID, 0, dir, dir)
	if err != nil {
		return err
	}
	x.keys, x.vector, x.short, x.newborn = first.Keys, first.Replica.Vector(), true, true
	return first.Keys.Commit(true)
}

func whyMissing(members []Member) (all string) {
	for _, m := range members {
		all += fmt.Sprintf("server %s: %s. ", m.Server, m.Missing)
	}
	return all
}

// openReplica opens a copy of the replica of a partition with an index.
func (s *Salvage) openReplica(p *topology.Partition, index int) (*server.Remains, error) {
	r := &p.Replicas[index]
	from := s.server(r.Server)
	if from == nil {
		return nil, errors.New("its data directory is not given")
	}
	process, err := from.Process(p.ID)
	if err != nil {
		return nil, err
	}
	if process == 0 {
		return nil, fmt.Errorf("%s has no replica of the partition", from.Dir)
	}
	if process != r.Process {
		return nil, fmt.Errorf("%s has process %d, and not process %d: its disk was lost before", from.Dir, process, r.Process)
	}
	name := daemon.PartitionDir(p.ID)
	copied := filepath.Join(s.scratch, r.Server)
	if err := os.CopyFS(filepath.Join(copied, name), os.DirFS(filepath.Join(from.Dir, name))); err != nil {
		return nil, err
	}
	return server.OpenRemains(s.plan, p.ID, index, copied, from.Dir)
}

// doubt returns the reason why a replica may have lost records; empty: there is none.
func (s *Salvage) doubt(name string, now *server.Remains) string {
	if now.Doubt != "" {
		return now.Doubt
	}
	if now.Log.Amnesiac {
		return "it has lost power, and did not get the state of the others since"
	}
	for _, other := range s.servers {
		if then := other.ReportedPosition(name, now.Process); other.Name != name && then.Compare(now.Position) > 0 {
			return fmt.Sprintf("server %s knows that its log was longer: its directory was rolled back", other.Name)
		}
	}
	return ""
}
