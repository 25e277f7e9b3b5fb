package daemon

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/globalfs/globalfs/internal/server"
	"github.com/globalfs/globalfs/internal/topology"
)

// partition records the problems of a partition and its replicas.
func (j *judge) partition(p *topology.Partition) {
	h := PartitionHealth{ID: p.ID, Path: p.Path, Region: p.Region, State: string(p.State), Order: string(j.plan.OrderOf(p))}
	var reached uint64 // by the most advanced replica, stillAfter ago
	for _, r := range p.Replicas {
		h.Applied = max(h.Applied, j.replicas[uint32(r.Process)].Applied)
		reached = max(reached, j.replicas[uint32(r.Process)].Before)
	}
	var missing []string
	for _, r := range p.Replicas {
		status, up := j.replicas[uint32(r.Process)]
		one := ReplicaHealth{Server: r.Server, Up: up}
		if up {
			j.behind(p, r.Server, &status, reached)
			one.State = j.stateOfAmnesiac(p, r)
			one.Lag, one.Undecided, one.AgeMS = h.Applied-status.Applied, status.Undecided, status.AgeMS
			one.Memory = status.Memory
		} else {
			missing = append(missing, r.Server)
			one.State = j.stateOfStopped(p, r)
		}
		if status.Leads {
			h.Leader, h.Data, h.Spread = r.Server, status.Data, status.Spread
		}
		h.Replicas = append(h.Replicas, one)
	}
	h.Compared = j.compare(p)
	j.available(p, missing)
	j.health.Partitions = append(j.health.Partitions, h)
}

// available records whether a partition takes updates.
func (j *judge) available(p *topology.Partition, missing []string) {
	slices.Sort(missing)
	silent, down := j.silent[p.ID], j.down(missing)
	switch {
	case 2*len(missing) > len(p.Replicas):
		lasts := ""
		if silent != nil {
			lasts = fmt.Sprintf(", for %v", silent.longest.Round(time.Second))
		}
		one := Problem{Code: PartitionBlocked, CausedBy: down}
		if silent == nil && len(down) == 0 && !slices.ContainsFunc(missing, func(name string) bool { return !j.young(name) }) {
			one.Level = LevelWarn // all of them have just been started
		}
		j.add(one, "%s takes no updates%s: no replica on %s", j.name(p.ID), lasts, strings.Join(missing, ", "))
	case len(missing) > 0:
		j.weak(p, missing, down)
		fallthrough
	case silent != nil:
		j.notAnswering(p, silent)
	}
}

// weak records missing replicas of a partition that still has a majority.
func (j *judge) weak(p *topology.Partition, missing, down []string) {
	one := Problem{Code: PartitionWeak, Level: LevelInfo, CausedBy: down}
	for _, name := range missing {
		if !j.young(name) {
			one.Level = LevelWarn
		}
		if slices.Contains(down, name) || !j.hasProblem(p, name) {
			continue
		}
		one.CausedBy = append(one.CausedBy, name)
	}
	if len(one.CausedBy) < len(missing) {
		one.CausedBy = nil
	}
	j.add(one, "%s has no replica on %s: one more may be too many", j.name(p.ID), strings.Join(missing, ", "))
}

// hasProblem reports whether the replica of a partition on a server that runs has a recorded problem.
func (j *judge) hasProblem(p *topology.Partition, name string) bool {
	return slices.ContainsFunc(p.Replicas, func(r topology.Replica) bool {
		_, stopped := j.stopped[uint32(r.Process)]
		return r.Server == name && stopped
	})
}

// compare compares the states of a partition's replicas, and returns the number of commands after which all
// had the same state.
func (j *judge) compare(p *topology.Partition) uint64 {
	d, same := compareDigests(p, func(r topology.Replica) []DigestStatus { return j.digests[uint32(r.Process)] })
	if d == nil {
		return same
	}
	one := Problem{Code: ReplicaDiverged, Details: []string{d.String()}}
	if d.agreed {
		j.add(one, "the replica of %s on %s has another state than the majority", j.name(p.ID), d.servers())
	} else {
		j.add(one, "the replicas of %s on %s have different states, and no majority of the replicas agrees: no replica is replaced", j.name(p.ID), d.servers())
	}
	return same
}

// behind records a replica that lags. reached is the number of commands that the most advanced replica had
// executed stillAfter ago.
func (j *judge) behind(p *topology.Partition, server string, status *ReplicaStatus, reached uint64) {
	one := Problem{Code: ReplicaBehind, Level: j.levelOn(server)}
	missing := reached - min(reached, status.Applied)
	switch {
	case !status.Seated:
		j.group(one, j.name(p.ID), "replicas on "+server+" do not take part yet: wait before you stop another server: %s")
	case missing == 0:
	case status.StillMS >= stillAfter.Milliseconds():
		still := (time.Duration(status.StillMS) * time.Millisecond).Round(time.Second)
		j.group(Problem{Code: ReplicaBehind}, fmt.Sprintf("%s by %d commands for %v", j.name(p.ID), missing, still),
			"replicas on "+server+" are behind and do not move: look at the log of the server: %s")
	default:
		j.group(one, fmt.Sprintf("%s by %d commands", j.name(p.ID), missing),
			"replicas on "+server+" are behind and catch up: wait before you stop another server: %s")
	}
}

// stateOfStopped returns the state of a replica that does not run, and records the problem. Empty: its server
// does not report it.
func (j *judge) stateOfStopped(p *topology.Partition, r topology.Replica) string {
	s, known := j.stopped[uint32(r.Process)]
	switch {
	case !known:
	case s.State == string(server.StateStopped):
		j.problem(ReplicaStopped, "the replica of %s on %s has stopped, please report this: %s", j.name(p.ID), r.Server, s.Reason)
	case s.State == string(server.StateFailing):
		j.problem(ReplicaFailing, "the replica of %s on %s fails and is started again: %s", j.name(p.ID), r.Server, s.Reason)
	default:
		j.group(Problem{Code: ReplicaBehind, Level: j.levelOn(r.Server)}, j.name(p.ID),
			"replicas on "+r.Server+" take over the state of others: wait before you stop another server: %s")
	}
	return s.State
}

// stateOfAmnesiac returns the state of a replica that runs without a vote, and records the problem. Empty:
// the replica has a vote.
func (j *judge) stateOfAmnesiac(p *topology.Partition, r topology.Replica) string {
	s := j.stopped[uint32(r.Process)]
	if s.State != string(server.StateAmnesiac) {
		return ""
	}
	j.group(Problem{Code: ReplicaAmnesiac}, j.name(p.ID), "server "+r.Server+" has lost power and perhaps records; its replicas have no vote "+
		"until they have the state of a majority that has lost nothing: start the servers that are down: %s")
	return s.State
}

func (j *judge) notAnswering(p *topology.Partition, s *silence) {
	if s == nil {
		return
	}
	slices.Sort(s.servers)
	j.add(Problem{Code: PartitionNotAnswering, Details: []string{inOneLine(s.text)}}, "%s has not answered %s for %v: check the network between these servers and the replicas",
		j.name(p.ID), named(s.servers), s.longest.Round(time.Second))
}
