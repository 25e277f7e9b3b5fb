package sim

import (
	"fmt"
	"slices"
	"time"

	"github.com/globalfs/globalfs/pkg/fabric"
	"github.com/globalfs/globalfs/pkg/multicast"
	"github.com/globalfs/globalfs/pkg/multicast/check"
	"github.com/globalfs/globalfs/pkg/multicast/tram"
)

// tramDisk is the durable state of a process.
type tramDisk struct {
	records  [][]byte           // of the log, that are on disk
	durable  multicast.Progress // of the state machine, on disk
	unsynced *tram.Output       // of a step, that is not on disk yet
	applied  multicast.Position // of the state machine
	returns  bool               // the process is down, and will run again
	dead     bool               // another process has its seat
	behind   bool               // it needs the state of another member
}

// tramRestarts counts the situations that restarts have reached.
type tramRestarts struct {
	restarted, blackouts, recovered, transfers, checkpoints, replaced, zombies, returned int
}

func (a *tramRestarts) add(b *tramRestarts) {
	a.restarted += b.restarted
	a.blackouts += b.blackouts
	a.recovered += b.recovered
	a.transfers += b.transfers
	a.checkpoints += b.checkpoints
	a.replaced += b.replaced
	a.zombies += b.zombies
	a.returned += b.returned
}

// log takes the records of a step, which are not on disk before sync.
func (p *tramProcess) log(out *tram.Output) {
	if len(out.Records) > 0 {
		if out.Checkpoint {
			p.run.reach.checkpoints++
		}
		p.unsynced = out
	}
}

// sync brings the records to the disk, all of them or the first few.
func (p *tramProcess) sync() { p.write(len(p.unsynced.Records)) }

func (p *tramProcess) write(count int) {
	if p.unsynced.Checkpoint && count > 0 {
		p.records = nil
	}
	p.records = append(p.records, p.unsynced.Records[:count]...)
	p.unsynced = nil
}

// deliver records a delivery. A process that has restarted delivers again what its state machine has lost:
// the same messages at the same places.
func (p *tramProcess) deliver(d multicast.Delivery) {
	r := p.run
	own := d.Position()
	d.Final += generationStep * multicast.Timestamp(p.generation)
	if before, ok := r.places[p.id][d.Final]; ok || p.dead {
		if ok && before != d.ID {
			r.errs = append(r.errs, fmt.Errorf("process %d delivers %v at %d, and in an earlier life %v", p.id, d.ID, d.Final, before))
		}
		if p.dead && !ok {
			p.agrees(d)
		}
	} else {
		r.places[p.id][d.Final] = d.ID
		r.history.Deliveries = append(r.history.Deliveries, check.Delivery{Process: p.id, ID: d.ID, Final: d.Final, At: r.net.Now()})
	}
	if !p.dead && own.Final <= p.applied.Final {
		r.errs = append(r.errs, fmt.Errorf("process %d delivers %v at %d again", p.id, d.ID, d.Final))
	}
	p.applied = own
}

// agrees checks a delivery of a process that has lost its seat: other processes deliver the same message.
func (p *tramProcess) agrees(d multicast.Delivery) {
	for _, id := range p.group.Members {
		if other, ok := p.run.places[id][d.Final]; ok && other != d.ID {
			p.run.errs = append(p.run.errs, fmt.Errorf("process %d has lost its seat and delivers %v at %d, process %d %v", p.id, d.ID, d.Final, id, other))
		}
	}
}

// keepUp saves the state machine now and then, and gives a process that is behind the state of another
// member.
func (p *tramProcess) keepUp(out *tram.Output) {
	r := p.run
	if p.run.core.Sync && r.rng.IntN(3) == 0 {
		p.durable = multicast.UpTo(p.applied)
		p.in.Covered = p.durable
	}
	if len(out.Behind) == 0 || p.dead {
		return
	}
	for _, id := range p.group.Members {
		other := r.processes[id]
		if id == p.id || !other.up || other.busy || other.behind {
			continue
		}
		record, at, err := p.core.Adopt(other.core.State())
		if err != nil {
			continue
		}
		upTo := at.Of("").Final + generationStep*multicast.Timestamp(p.generation)
		for _, d := range r.history.Deliveries {
			if d.Process == id && d.Final <= upTo && r.places[p.id][d.Final] == (multicast.MessageID{}) {
				r.places[p.id][d.Final] = d.ID
				r.history.Deliveries = append(r.history.Deliveries, check.Delivery{Process: p.id, ID: d.ID, Final: d.Final, At: r.net.Now()})
			}
		}
		r.reach.transfers++
		p.stop()
		p.records, p.durable, p.applied = [][]byte{record}, at, at.Of("")
		p.reboot(false)
		return
	}
}

// voters returns the members of a process's group that run and have a vote.
func (r *tramRun) voters(p *tramProcess) (count int) {
	for _, id := range p.group.Members {
		if q := r.processes[id]; q.up && !q.core.Amnesiac() {
			count++
		}
	}
	return count
}

// stop ends a process with its memory. Of the records that are on the way to the disk the first ones get
// there.
func (p *tramProcess) stop() {
	r := p.run
	p.up, p.busy = false, false
	r.net.Crash(p.node)
	if p.unsynced != nil {
		p.write(r.rng.IntN(len(p.unsynced.Records) + 1))
	}
	for i := range r.history.Multicasts {
		m := &r.history.Multicasts[i]
		m.Lost = m.Lost || m.ID.Sender == p.id && !r.delivered[m.ID]
	}
}

// powerLoss stops a process, or all of its group, or all processes. They run again later. In mode memory the
// rest of the group keeps a majority.
func (r *tramRun) powerLoss(p *tramProcess, until time.Duration) {
	victims := []multicast.ProcessID{p.id}
	if r.core.Sync {
		switch r.rng.IntN(4) {
		case 0:
			victims = p.group.Members
		case 1:
			victims = r.ids
			r.reach.blackouts++
		}
	}
	for _, id := range victims {
		q := r.processes[id]
		if !q.up || !r.core.Sync && r.voters(q)-1 < q.group.Quorum() {
			continue
		}
		r.reach.restarted++
		q.stop()
		q.returns = true
		r.net.Schedule(max(until, r.net.Now()), func() {
			if q.returns {
				q.revive()
			}
		})
	}
}

// revive starts a process that was stopped.
func (p *tramProcess) revive() {
	if p.dead || p.up {
		return
	}
	p.returns = false
	if p.run.core.Sync {
		p.applied = p.durable.Of("")
		p.reboot(false)
		return
	}
	p.run.reach.recovered++
	p.tramDisk = tramDisk{}
	p.reboot(true)
}

// reboot begins the next life of a process, which is a new process for the simulator: steps of the life
// before come to nothing.
func (p *tramProcess) reboot(amnesiac bool) {
	next := &tramProcess{run: p.run, id: p.id, node: p.node, group: p.group, life: p.life + 1, seq: p.seq, tramDisk: p.tramDisk}
	next.generation, next.returned = p.generation, p.returned
	next.unsynced = nil
	if err := next.start(amnesiac); err != nil {
		p.run.errs = append(p.run.errs, err)
	}
}

// replaceProcess assigns the seat of a process to another node without state. The replaced process may still
// run. It learns of the replacement later or never.
func (r *tramRun) replaceProcess(p *tramProcess) {
	if r.voters(p)-1 < p.group.Quorum() || p.returns || p.up && p.core.Amnesiac() {
		return
	}
	r.reach.replaced++
	if p.up {
		if r.rng.IntN(2) == 0 {
			p.stop()
		} else {
			r.reach.zombies++
		}
	}
	p.dead = true
	for i := range r.history.Multicasts {
		m := &r.history.Multicasts[i]
		m.Lost = m.Lost || m.ID.Sender == p.id && !r.delivered[m.ID]
	}
	seat := tram.Seat{Process: p.id, Life: p.life + 1, Node: fabric.NodeID(1000*(p.life+1) + uint32(p.id))}
	r.seats = append(r.seats, seat)
	if p.up && r.rng.IntN(2) == 0 {
		r.tell(p, seat)
	}
	for _, id := range r.ids {
		if q := r.processes[id]; q != p {
			r.tell(q, seat)
		}
	}
	next := &tramProcess{run: r, id: p.id, node: seat.Node, group: p.group, life: seat.Life, seq: p.seq}
	next.generation = p.generation
	if err := next.start(true); err != nil {
		r.errs = append(r.errs, err)
	}
}

// tell passes a seat to a process after a random time.
func (r *tramRun) tell(p *tramProcess, s tram.Seat) {
	r.net.Schedule(r.net.Now()+r.between(0, r.longest), func() {
		p.in.Seats = append(p.in.Seats, s)
		p.wake()
	})
}

// restarted reports whether a member of a group has restarted.
func (r *tramRun) restarted(group multicast.GroupID) bool {
	return slices.ContainsFunc(r.ids, func(id multicast.ProcessID) bool {
		p := r.processes[id]
		return p.group.ID == group && p.life > 0
	})
}
