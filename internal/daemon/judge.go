package daemon

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/globalfs/globalfs/internal/invariant"
	"github.com/globalfs/globalfs/internal/topology"
)

// notAnsweringAfter is the time for which a partition does not answer a server before that is a problem.
const notAnsweringAfter = canaryPatience

// startingFor is the time that a server may take after its start to check its blocks, before that is a
// problem.
const startingFor = 5 * time.Minute

// youngFor is the time after the start of a server in which missing or lagging replicas there are not a
// warning.
const youngFor = time.Minute

// Judge computes a Health from the answers of the servers of a cluster.
func Judge(name string, answers []Answer, plan *topology.Cluster) *Health {
	h := &Health{Cluster: name, Problems: []Problem{}}
	j := judge{
		health: h, plan: plan, replicas: map[uint32]ReplicaStatus{}, stopped: map[uint32]StoppedReplica{}, digests: map[uint32][]DigestStatus{},
		silent: map[uint16]*silence{}, groups: map[string]*group{}, servers: map[string]*ServerHealth{},
	}
	for _, a := range answers {
		h.Version = max(h.Version, a.Status.Version)
	}
	for i := range answers {
		j.server(&answers[i])
	}
	for _, odd := range clocksDiffer(answers) {
		j.problem(ClocksDiffer, "the clock of %s: run an NTP client on all servers", odd)
	}
	for i := range h.Servers {
		j.servers[h.Servers[i].Name] = &h.Servers[i]
	}
	for i := range answers {
		j.about(&answers[i])
	}
	for i := range plan.Partitions {
		j.partition(&plan.Partitions[i])
	}
	j.growth(answers)
	j.merge()
	if len(j.starting) > 0 {
		h.Starting = []string{strings.Join(j.starting, ", ") + ": scanning blocks after the start: wait before you stop another server"}
	}
	slices.SortStableFunc(h.Problems, func(a, b Problem) int { return slices.Index(causes, a.Code) - slices.Index(causes, b.Code) })
	h.Healthy = !slices.ContainsFunc(h.Problems, func(p Problem) bool { return p.Level != LevelInfo })
	return h
}

// Settled reports whether there are no problems, and no server has tasks left after its start. Then another
// server may be stopped.
func (h *Health) Settled() bool { return len(h.Problems) == 0 && len(h.Starting) == 0 }

// judge builds a Health.
type judge struct {
	health   *Health
	plan     *topology.Cluster
	servers  map[string]*ServerHealth
	replicas map[uint32]ReplicaStatus  // by process: the replicas that answered
	stopped  map[uint32]StoppedReplica // by process: the replicas that do not run although their server runs
	digests  map[uint32][]DigestStatus // by process
	silent   map[uint16]*silence       // by partition
	groups   map[string]*group         // by code, level and text
	starting []string                  // servers that look through their blocks after their start
}

// silence is a partition that does not answer some servers.
type silence struct {
	servers []string
	longest time.Duration
	text    string // the error of the longest
}

// group is one problem of several replicas or servers, shown in one line.
type group struct {
	Problem
	subjects []string
	text     func(subjects string) string
}

func (j *judge) problem(code, format string, args ...any) {
	j.add(Problem{Code: code}, format, args...)
}

// add records a problem. If it has no level, it gets the level of its code.
func (j *judge) add(p Problem, format string, args ...any) {
	invariant.Check(slices.Contains(causes, p.Code), "problem code %s has no rank", p.Code)
	if p.Level == "" {
		p.Level = levelOf(p.Code)
	}
	p.Text = inOneLine(fmt.Sprintf(format, args...))
	j.health.Problems = append(j.health.Problems, p)
}

// group records a problem of subject. Problems of the same code, level and format become one problem: %s in
// format stands for the names of all their subjects.
func (j *judge) group(p Problem, subject, format string) {
	if p.Level == "" {
		p.Level = levelOf(p.Code)
	}
	key := p.Code + string(p.Level) + format
	g := j.groups[key]
	if g == nil {
		g = &group{Problem: Problem{Code: p.Code, Level: p.Level}, text: func(subjects string) string { return strings.Replace(format, "%s", subjects, 1) }}
		j.groups[key] = g
	}
	g.subjects = append(g.subjects, subject)
	g.Details = append(g.Details, p.Details...)
	for _, cause := range p.CausedBy {
		if !slices.Contains(g.CausedBy, cause) {
			g.CausedBy = append(g.CausedBy, cause)
		}
	}
}

// merge adds the problems in groups.
func (j *judge) merge() {
	for _, g := range j.groups {
		slices.Sort(g.subjects)
		if len(g.subjects) > maxNamed {
			g.Details = append(g.Details, "all: "+strings.Join(g.subjects, ", "))
		}
		j.add(g.Problem, "%s", g.text(named(g.subjects)))
	}
	slices.SortStableFunc(j.health.Problems, func(a, b Problem) int { return strings.Compare(a.Text, b.Text) })
}

// young reports whether a server runs and has been started less than youngFor ago.
func (j *judge) young(server string) bool {
	s := j.servers[server]
	return s != nil && s.State != stateDown && s.UpFor < int64(youngFor.Seconds())
}

// levelOn returns the level of a problem that ends by itself some time after the start of its server.
func (j *judge) levelOn(server string) Level {
	if j.young(server) {
		return LevelInfo
	}
	return LevelWarn
}

// down returns those of the servers that do not answer.
func (j *judge) down(servers []string) (down []string) {
	for _, name := range servers {
		if s := j.servers[name]; s != nil && s.State == stateDown {
			down = append(down, name)
		}
	}
	return down
}

// stateDown is the state of a server that does not answer.
const stateDown = "down"

// server records the answer of a server.
func (j *judge) server(a *Answer) {
	s := ServerHealth{Name: a.Server.Name, Region: a.Server.Region, Address: a.Server.Address, State: "up"}
	if a.Error != "" {
		s.State = stateDown
		j.health.Servers = append(j.health.Servers, s)
		return
	}
	if a.Server.State != topology.StorageMember {
		s.State = string(a.Server.State)
	}
	status := &a.Status
	s.Build, s.UpFor, s.Replicas, s.Storage = status.Build, int64(time.Since(status.Started).Seconds()), len(status.Replicas), status.Storage
	s.Links = status.Links
	for _, r := range status.Replicas {
		j.replicas[r.Process] = r
		if r.Leads {
			s.Leads++
		}
	}
	for _, r := range status.Stopped {
		j.stopped[r.Process] = r
	}
	for _, r := range status.Digests {
		j.digests[r.Process] = r.Digests
	}
	for _, u := range status.Unanswered {
		j.unanswered(s.Name, &u)
	}
	j.health.Servers = append(j.health.Servers, s)
}

// about records the problems of a server. The answers of all servers must be recorded before.
func (j *judge) about(a *Answer) {
	name, status := a.Server.Name, &a.Status
	if a.Error != "" {
		j.serverDown(name, a.Error)
		return
	}
	if status.Registry != "" {
		j.group(Problem{Code: RegistryAway, Details: []string{name + ": " + inOneLine(status.Registry)}}, name,
			"the registry (etcd) is no help to %s: files are served, and the cluster cannot be changed. Check etcd")
	}
	if status.Version < j.health.Version {
		j.add(Problem{Code: ServerBehind, Level: j.levelOn(name)}, "server %s knows version %d of the cluster, others %d: check that it reaches etcd", name, status.Version, j.health.Version)
	}
	for _, d := range status.Damaged {
		j.problem(ReplicaDamaged, "the replica of %s on %s does not run: %s%s", j.name(d.Partition), name, d.Reason, d.Waits)
	}
	j.storage(j.servers[name])
}

// serverDown records a server that does not answer, with the partitions that have replicas on it.
func (j *judge) serverDown(name, reason string) {
	var missed []string
	for _, p := range j.plan.Partitions {
		if slices.ContainsFunc(p.Replicas, func(r topology.Replica) bool { return r.Server == name }) {
			missed = append(missed, p.Path)
		}
	}
	text := ""
	if len(missed) > 0 {
		text = fmt.Sprintf(" (it has replicas of %s)", named(missed))
	}
	j.add(Problem{Code: ServerDown, Details: []string{inOneLine(reason)}}, "server %s does not answer%s: start it, or look at its log", name, text)
}

// name returns the text for a partition: its number, for the commands of 'globalfs admin', and its path.
func (j *judge) name(partition uint16) string {
	if int(partition) < len(j.plan.Partitions) {
		return fmt.Sprintf("partition %d (%s)", partition, j.plan.Partitions[partition].Path)
	}
	return fmt.Sprintf("partition %d", partition)
}

// unanswered records that a partition does not answer a server.
func (j *judge) unanswered(server string, u *Unanswered) {
	lasts := time.Duration(u.ForMS) * time.Millisecond
	if lasts < notAnsweringAfter {
		return
	}
	s := j.silent[u.Partition]
	if s == nil {
		s = &silence{}
		j.silent[u.Partition] = s
	}
	s.servers = append(s.servers, server)
	if lasts > s.longest {
		s.longest, s.text = lasts, u.Error
	}
}

// storage records the problems of a server's storage.
func (j *judge) storage(server *ServerHealth) {
	s := server.Storage
	if s == nil || s.Status == nil {
		return
	}
	s.Status.Adopt()
	last := s.Status.Repair.Last
	switch {
	case last.FinishedAt.IsZero() && server.UpFor < int64(startingFor.Seconds()):
		j.starting = append(j.starting, server.Name)
	case last.FinishedAt.IsZero():
		j.problem(RepairPending, "server %s has not looked through its blocks since it started: wait before another one is stopped", server.Name)
	case !last.Complete:
		j.incomplete(server, last.Error)
	}
	if last.Lost > 0 {
		j.problem(BlocksLost, "%d blocks have no good copy in the region, says server %s: its log names them", last.Lost, server.Name)
	}
}

// incomplete records a round of repair that has not checked all blocks. The usual reason is that another
// server of the region did not answer.
func (j *judge) incomplete(server *ServerHealth, reason string) {
	var others []string
	level := j.levelOn(server.Name)
	for _, o := range j.health.Servers {
		if o.Region == server.Region {
			others = append(others, o.Name)
			if j.young(o.Name) {
				level = LevelInfo
			}
		}
	}
	j.group(Problem{Code: RepairPending, Level: level, CausedBy: j.down(others), Details: []string{server.Name + ": " + j.withNames(inOneLine(reason))}},
		server.Name, "the blocks of %s could not all be checked: wait before you stop another server, and look at the logs")
}

// withNames replaces the numbers of storage servers by their names.
func (j *judge) withNames(text string) string {
	var pairs []string
	for _, s := range j.plan.Servers {
		for _, word := range []string{"storage server", "process"} {
			for _, end := range []string{":", " ", ",", ";"} {
				pairs = append(pairs, fmt.Sprintf("%s %d%s", word, s.Storage, end), fmt.Sprintf("server %s%s", s.Name, end))
			}
		}
	}
	return strings.NewReplacer(pairs...).Replace(text)
}
