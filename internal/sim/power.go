package sim

import (
	"cmp"
	"slices"
	"time"

	"github.com/globalfs/globalfs/pkg/multicast"
)

// With durability `os` records are written, and synced only when a core asks for it (multicast.Output.Sync).
// A process that stops alone loses no written record. A group that loses power loses the records that were
// not synced.
//
// The fault is restricted. If the members of a group keep logs with different ends, the group may disagree
// afterwards: for example, a quorum has acknowledged an entry, and only one member has kept it; or a primary
// has lost a proposal that a follower has kept. Such a group needs a recovery procedure, which this fault
// does not cover. Here
//
//  1. all members of one group lose power at the same time;
//  2. there is one end of the log, in the order of ends (epoch, length of T), which is not before the last
//     sync of any member's log or store;
//  3. each member keeps its log up to the first record that reaches this end, or all of it, and a state of
//     its store that is not beyond this end.
//
// So each delivery up to the end is still in the logs of a quorum, and no store holds another one.

// LogEnd is the end of a log in the order of the process's group: the epoch, and the length of T.
type LogEnd struct {
	Epoch, Leader, Length uint64
	Last                  multicast.Timestamp // of the last entry
}

func (a LogEnd) compare(b LogEnd) int {
	return cmp.Or(cmp.Compare(a.Epoch, b.Epoch), cmp.Compare(a.Leader, b.Leader), cmp.Compare(a.Length, b.Length))
}

// logger is a node that returns the end of its log after each record of a step.
type logger interface {
	LogEnds(records [][]byte) []LogEnd
}

// SyncStore records that the state machine of a process is durable as it is: after a loss of power, the log
// reaches at least its present end.
func (n *Network) SyncStore(p multicast.ProcessID) {
	d := &n.processes[p].disk
	d.atLeast(d.end())
}

// end returns the end of the written log.
func (d *disk) end() LogEnd {
	if len(d.ends) == 0 {
		return LogEnd{}
	}
	return d.ends[len(d.ends)-1]
}

func (d *disk) atLeast(end LogEnd) {
	if end.compare(d.least) > 0 {
		d.least = end
	}
}

// losePower stops all members of a group at once, and cuts their logs.
func (n *Network) losePower(p *process) {
	g := n.groupOf(p.id)
	if g == nil || n.cfg.Faults.Dark == nil {
		return
	}
	n.mark(Dark)
	var end LogEnd
	var ends []LogEnd
	for _, id := range g.Members {
		q := n.processes[id]
		if q.up {
			q.stop()
		}
		d := &q.disk
		if d.synced > 0 {
			d.atLeast(d.ends[d.synced-1])
		}
		if d.least.compare(end) > 0 {
			end = d.least
		}
		ends = append(ends, d.ends...)
	}
	if later := slices.DeleteFunc(ends, func(e LogEnd) bool { return e.compare(end) <= 0 }); len(later) > 0 && n.percent(30) {
		end = later[n.rng.IntN(len(later))]
	}
	for _, id := range g.Members {
		n.processes[id].disk.cut(n, end)
	}
	n.cfg.Faults.Dark(g.Members, end)
	for _, id := range g.Members {
		n.Schedule(n.now+n.between(0, n.cfg.Faults.Longest), n.processes[id].restart)
	}
}

// cut drops the records after the first one that reaches an end of the log.
func (d *disk) cut(n *Network, end LogEnd) {
	keep, last := 0, LogEnd{}
	for keep < len(d.records) && (keep < d.synced || last.compare(end) < 0) {
		last = d.ends[keep]
		keep++
	}
	if keep < len(d.records) {
		n.mark(DarkLost)
	}
	d.records, d.ends = d.records[:keep], d.ends[:keep]
}

// outage stops one process and cuts its log somewhere after its last sync, if the others that are up and
// remember are a quorum. The state machine may hold more than the rest of the log.
func (n *Network) outage(until time.Duration, p *process) {
	f, g := &n.cfg.Faults, n.groupOf(p.id)
	if f.Remembers == nil || g == nil || !p.up || !n.mayStop(p) || f.MayMove != nil && !f.MayMove(p.id) {
		return
	}
	others := 0
	for _, id := range g.Members {
		if q := n.processes[id]; q != p && q.up && !q.disk.dark && f.Remembers(id) {
			others++
		}
	}
	if others <= len(g.Members)/2 {
		return
	}
	p.stop()
	f.Darkened(p.id)
	n.mark(Outage)
	d := &p.disk
	if keep := d.synced + n.rng.IntN(len(d.records)-d.synced+1); keep < len(d.records) {
		n.mark(OutageLost)
		d.records, d.ends = d.records[:keep], d.ends[:keep]
	}
	d.dark = true
	n.Schedule(until, p.restart)
}

// SyncLog makes the log of a process durable as it is, as drivers do before they sync a state machine.
func (n *Network) SyncLog(p multicast.ProcessID) {
	d := &n.processes[p].disk
	d.synced = len(d.records)
}
