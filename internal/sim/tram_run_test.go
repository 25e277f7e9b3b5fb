package sim

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/globalfs/globalfs/pkg/fabric"
	"github.com/globalfs/globalfs/pkg/fabric/fabricsim"
	"github.com/globalfs/globalfs/pkg/multicast"
	"github.com/globalfs/globalfs/pkg/multicast/check"
	"github.com/globalfs/globalfs/pkg/multicast/tram"
)

// tramConfig is a run of package tram on a fabric of package fabricsim.
type tramConfig struct {
	seed     uint64
	groups   []multicast.Group
	parents  map[multicast.GroupID]multicast.GroupID
	fabric   fabricsim.Config
	core     tram.Config // without Self, Groups and Parents
	messages int
	every    time.Duration
	mostDest int
	linger   time.Duration // a step takes up to this time, and its operations leave when it ends
	// Faults occur until the messages are multicast.
	faultEvery       time.Duration
	cut, pause, kill int           // weights
	longest          time.Duration // of a cut or a pause
	chase            int           // weight: a leader pauses or is killed
	restart          int           // weight: processes stop, and run again
	replace          int           // weight: another node takes over the seat of a process, which may still run
	syncMax          time.Duration // a sync takes up to this time
	barrierAt        time.Duration // a barrier is multicast, and the tree changes behind it; 0: none
	nextParents      map[multicast.GroupID]multicast.GroupID
	upper            *heronRun // nil: deliveries are not executed
}

// tramReach counts the situations that the seeds of a test have reached.
type tramReach struct {
	tram.Stats
	fabric               fabricsim.Stats
	killed, paused, cuts int
	tramRestarts
}

// tramProcess is a process with its TRAM core.
type tramProcess struct {
	run         *tramRun
	id          multicast.ProcessID
	node        fabric.NodeID
	life        uint32
	group       *multicast.Group
	core        *tram.Core
	endpoint    *fabricsim.Endpoint
	up          bool
	busy        bool // a step has not ended, or is scheduled
	again       bool // input has arrived since
	pausedUntil time.Duration
	wakeAt      time.Duration
	in          tram.Input
	events      fabric.Events
	seq         uint64
	upper       *heronProcess // nil: nobody executes the deliveries
	tramDisk
	tramSeal
}

type tramRun struct {
	tramConfig
	net        *fabricsim.Network
	rng        *rand.Rand
	processes  map[multicast.ProcessID]*tramProcess
	ids        []multicast.ProcessID
	history    check.History
	multicasts map[multicast.MessageID]int
	delivered  map[multicast.MessageID]bool
	sends      map[[2]multicast.ProcessID]time.Duration
	reach      tramReach
	errs       []error
	healed     bool
	deliveries []tramDelivery
	nodes      map[fabric.NodeID]multicast.ProcessID
	seats      []tram.Seat
	generation int // of the tree
	places     map[multicast.ProcessID]map[multicast.Timestamp]multicast.MessageID
}

// tramDelivery is a delivery in a group.
type tramDelivery struct {
	multicast.Delivery
	group multicast.GroupID
}

// runTram runs a configuration and judges it.
func runTram(cfg tramConfig, reach *tramReach) error {
	r := &tramRun{
		tramConfig: cfg, net: fabricsim.New(cfg.fabric), rng: rand.New(rand.NewPCG(cfg.seed, 11)),
		processes: map[multicast.ProcessID]*tramProcess{}, multicasts: map[multicast.MessageID]int{},
		delivered: map[multicast.MessageID]bool{}, sends: map[[2]multicast.ProcessID]time.Duration{},
		nodes: map[fabric.NodeID]multicast.ProcessID{}, places: map[multicast.ProcessID]map[multicast.Timestamp]multicast.MessageID{},
	}
	for i := range cfg.groups {
		for _, id := range cfg.groups[i].Members {
			p := &tramProcess{run: r, id: id, group: &cfg.groups[i], node: fabric.NodeID(id)}
			r.ids = append(r.ids, id)
			r.places[id] = map[multicast.Timestamp]multicast.MessageID{}
			if err := p.start(false); err != nil {
				return err
			}
		}
	}
	r.load()
	if cfg.barrierAt > 0 {
		r.net.Schedule(cfg.barrierAt, r.barrier)
	}
	if cfg.faultEvery > 0 {
		r.scheduleFault()
	}
	end := time.Duration(cfg.messages+1)*cfg.every + 20*time.Millisecond
	r.net.Run(end)
	r.heal()
	for limit := end + 20*time.Second; r.net.Now() < limit && !r.complete(); {
		r.net.Run(r.net.Now() + 5*time.Millisecond)
	}
	return r.judge(reach)
}

// start starts a process, with what its disk holds.
func (p *tramProcess) start(amnesiac bool) error {
	r := p.run
	cfg := r.core
	cfg.Self, cfg.Groups, cfg.Parents, cfg.Seed = p.id, r.groups, r.parents, r.seed+uint64(p.id)
	cfg.Life, cfg.Amnesiac, cfg.Delivered, cfg.Seats = p.life, amnesiac, p.durable, slices.Clone(r.seats)
	core, err := tram.New(cfg)
	if err != nil {
		return err
	}
	for _, record := range p.records {
		if err := core.Replay(record); err != nil {
			return err
		}
	}
	p.core, p.up, p.endpoint = core, true, r.net.Node(p.node)
	for _, region := range core.Regions() {
		m, err := p.endpoint.Register(region.ID, region.Size)
		if err != nil {
			return err
		}
		core.Attach(region.ID, m)
	}
	if r.upper != nil {
		if p.upper, err = r.upper.start(p); err != nil {
			return err
		}
	}
	p.endpoint.OnChange(p.wake)
	r.processes[p.id], r.nodes[p.node] = p, p.id
	p.wake()
	return nil
}

// wake schedules a step, once the one before has ended.
func (p *tramProcess) wake() {
	if p.busy || !p.up {
		p.again = true
		return
	}
	p.busy = true
	p.run.net.Schedule(max(p.pausedUntil, p.run.net.Now()+p.run.between(0, p.run.linger)), p.begin)
}

// begin does a step: rights change at once, and operations leave later.
func (p *tramProcess) begin() {
	if p.retires() {
		return
	}
	if p.pausedUntil > p.run.net.Now() {
		p.run.net.Schedule(p.pausedUntil, p.begin)
		return
	}
	p.again = false
	p.events.Reset()
	p.endpoint.Poll(&p.events)
	p.in.Now, p.in.Completions = p.run.net.Now(), p.events.Completions
	ends := max(p.pausedUntil, p.run.net.Now()+p.run.between(0, p.run.linger))
	out := &tram.Output{}
	if p.upper != nil {
		p.in.Completions = p.upper.split(p.events.Completions)
	}
	p.core.Step(&p.in, out)
	p.in = tram.Input{}
	p.seal(out)
	if p.upper != nil {
		p.upper.step(out, ends)
	}
	p.log(out)
	if len(out.Records) > 0 {
		ends += p.run.between(0, p.run.syncMax)
	} else {
		p.permit(out)
	}
	p.run.net.Schedule(ends, func() { p.end(out) })
}

// permit changes rights.
func (p *tramProcess) permit(out *tram.Output) {
	for _, right := range out.Rights {
		change := p.endpoint.Grant
		if right.Revoke {
			change = p.endpoint.Revoke
		}
		if err := change(right.Region, right.Peer, right.Rights); err != nil {
			p.run.errs = append(p.run.errs, err)
		}
	}
}

func (p *tramProcess) end(out *tram.Output) {
	r := p.run
	if !p.up {
		return
	}
	if p.pausedUntil > r.net.Now() {
		r.net.Schedule(p.pausedUntil, func() { p.end(out) })
		return
	}
	if len(out.Records) > 0 {
		p.sync()
		p.permit(out)
	}
	for i := range out.Ops {
		pair := [2]multicast.ProcessID{p.id, r.nodes[out.Ops[i].Peer]}
		if _, ok := r.sends[pair]; !ok {
			r.sends[pair] = r.net.Now()
		}
	}
	if err := p.endpoint.Post(out.Ops...); err != nil {
		r.errs = append(r.errs, err)
	}
	if p.upper != nil {
		p.upper.end()
	}
	for _, d := range out.Deliveries {
		r.delivered[d.ID] = true
		if p.upper != nil {
			r.deliveries = append(r.deliveries, tramDelivery{d, p.group.ID})
		}
		p.deliver(d)
	}
	p.busy, p.behind = false, len(out.Behind) > 0
	p.keepUp(out)
	if !p.up {
		return
	}
	if p.upper != nil && p.upper.out.Wake > 0 && (out.Wake == 0 || p.upper.out.Wake < out.Wake) {
		out.Wake = p.upper.out.Wake
	}
	if p.again {
		p.wake()
		return
	}
	if out.Wake > 0 {
		at := max(out.Wake, r.net.Now()+time.Microsecond)
		p.wakeAt = at
		r.net.Schedule(at, func() {
			if p.wakeAt == at {
				p.wake()
			}
		})
	}
}

// pending is how much a process still has to do, with its upper layer.
func (p *tramProcess) pending() int {
	n := p.core.Pending()
	if p.upper != nil {
		n += p.upper.core.Pending()
	}
	return n
}

func (r *tramRun) between(from, to time.Duration) time.Duration {
	return from + time.Duration(r.rng.Int64N(int64(max(0, to-from))+1))
}

// load schedules the messages.
func (r *tramRun) load() {
	at := time.Duration(0)
	for range r.messages {
		at += r.between(0, 2*r.every)
		r.net.Schedule(at, r.multicast)
	}
}

func (r *tramRun) multicast() {
	p := r.processes[r.ids[r.rng.IntN(len(r.ids))]]
	var dest []multicast.GroupID
	for _, i := range r.rng.Perm(len(r.groups))[:1+r.rng.IntN(r.mostDest)] {
		dest = append(dest, r.groups[i].ID)
	}
	slices.Sort(dest)
	if !p.up {
		return
	}
	p.seq++
	payload := make([]byte, r.rng.IntN(40))
	if r.upper != nil {
		payload = r.upper.payload(r.rng, dest)
	}
	m := multicast.Message{ID: multicast.MessageID{Sender: p.id, Seq: p.seq}, Dest: dest, Payload: payload}
	r.propose(p, m)
	if r.rng.IntN(10) == 0 {
		p.in.Proposed = append(p.in.Proposed, m) // a repeated proposal counts once
	}
	p.wake()
}

// propose gives a message to its sender.
func (r *tramRun) propose(p *tramProcess, m multicast.Message) {
	r.multicasts[m.ID] = len(r.history.Multicasts)
	r.history.Multicasts = append(r.history.Multicasts, check.Multicast{ID: m.ID, Dest: m.Dest, At: r.net.Now()})
	p.in.Proposed = append(p.in.Proposed, m)
}

func (r *tramRun) scheduleFault() {
	r.net.Schedule(r.net.Now()+r.between(0, 2*r.faultEvery), func() {
		if !r.healed {
			r.fault()
			r.scheduleFault()
		}
	})
}

func (r *tramRun) fault() {
	p := r.processes[r.ids[r.rng.IntN(len(r.ids))]]
	until := r.net.Now() + r.between(0, r.longest)
	draw := r.rng.IntN(r.cut + r.pause + r.kill + r.chase + r.restart + r.replace)
	if draw -= r.restart; draw < 0 {
		r.powerLoss(p, until)
		return
	}
	if draw -= r.replace; draw < 0 {
		r.replaceProcess(p)
		return
	}
	switch {
	case draw < r.cut:
		r.reach.cuts++
		r.cutOff(p, until)
	case draw < r.cut+r.pause:
		p.pausedUntil = max(p.pausedUntil, until)
		r.reach.paused++
	case draw < r.cut+r.pause+r.kill:
		r.crash(p)
	default:
		r.hunt(until)
	}
}

// cutOff cuts links of a process, all or some, in one direction or both.
func (r *tramRun) cutOff(p *tramProcess, until time.Duration) {
	both, all := r.rng.IntN(2) == 0, r.rng.IntN(2) == 0
	for _, id := range r.ids {
		if id == p.id || !all && r.rng.IntN(2) == 0 {
			continue
		}
		a, b := fabric.NodeID(p.id), fabric.NodeID(id)
		if !both && r.rng.IntN(2) == 0 {
			a, b = b, a
		}
		r.net.Cut(a, b)
		if both {
			r.net.Cut(b, a)
		}
		r.net.Schedule(until, func() {
			r.net.Mend(a, b)
			r.net.Mend(b, a)
		})
	}
}

// hunt pauses or stops a process that leads.
func (r *tramRun) hunt(until time.Duration) {
	for _, i := range r.rng.Perm(len(r.ids)) {
		p := r.processes[r.ids[i]]
		if !p.up || !p.core.Leads() || len(p.group.Members) == 1 {
			continue
		}
		if r.rng.IntN(3) == 0 {
			r.crash(p)
		} else {
			p.pausedUntil = max(p.pausedUntil, until)
			r.reach.paused++
		}
		return
	}
}

// crash stops a process for ever, if a majority of its group remains.
func (r *tramRun) crash(p *tramProcess) {
	if !p.up || r.voters(p)-1 < p.group.Quorum() {
		return
	}
	r.reach.killed++
	p.stop()
}

func (r *tramRun) heal() {
	r.healed = true
	r.net.Heal()
	for _, id := range r.ids {
		p := r.processes[id]
		p.pausedUntil = r.net.Now()
		if !p.up && p.returns {
			p.revive()
		}
	}
}

// complete reports whether all messages are delivered and no process waits.
func (r *tramRun) complete() bool {
	if r.barrierAt > 0 && r.generation == 0 {
		r.changeTree()
		return false
	}
	type place struct {
		process multicast.ProcessID
		id      multicast.MessageID
	}
	have := map[place]bool{}
	for _, d := range r.history.Deliveries {
		have[place{d.Process, d.ID}] = true
	}
	for _, m := range r.history.Multicasts {
		if m.Lost && !r.delivered[m.ID] {
			continue
		}
		for _, id := range r.ids {
			if p := r.processes[id]; p.up && slices.Contains(m.Dest, p.group.ID) && !have[place{id, m.ID}] {
				return false
			}
		}
	}
	for _, id := range r.ids {
		if p := r.processes[id]; p.up && p.pending() > 0 {
			return false
		}
	}
	return true
}

// judge checks the history: all properties except those of final timestamps, which TRAM does not have.
func (r *tramRun) judge(reach *tramReach) error {
	h := &r.history
	for _, id := range r.ids {
		p := r.processes[id]
		h.Processes = append(h.Processes, check.Process{ID: id, Group: p.group.ID, Correct: p.up})
		s := p.core.Stats()
		reach.Campaigns += s.Campaigns
		reach.Led += s.Led
		reach.Adopted += s.Adopted
		reach.Dropped += s.Dropped
		reach.Helped += s.Helped
		reach.Reborn += s.Reborn
		reach.Failed += s.Failed
		if s.Malformed > 0 {
			r.errs = append(r.errs, fmt.Errorf("process %d: %d malformed", id, s.Malformed))
		}
	}
	s := r.net.Stats()
	reach.fabric.Halved += s.Halved
	reach.fabric.Torn += s.Torn
	reach.fabric.Lost += s.Lost
	reach.fabric.LandedLate += s.LandedLate
	reach.fabric.LostReplies += s.LostReplies
	reach.fabric.Denied += s.Denied
	reach.killed += r.reach.killed
	reach.paused += r.reach.paused
	reach.cuts += r.reach.cuts
	reach.tramRestarts.add(&r.reach.tramRestarts)
	found := slices.Concat(check.Integrity(h), check.PrefixOrder(h), check.AcyclicOrder(h), check.Agreement(h), check.Validity(h))
	r.errs = append(r.errs, r.samePlaces()...)
	if r.generation == 0 {
		r.errs = append(r.errs, r.strangers()...) // the groups on the way change with the tree
	}
	if r.upper != nil {
		r.errs = append(r.errs, r.upper.judge()...)
	}
	for _, id := range r.ids {
		if p := r.processes[id]; p.up && p.pending() > 0 {
			r.errs = append(r.errs, fmt.Errorf("process %d still waits for others: %d", id, p.pending()))
		}
	}
	if len(found) > 0 || len(r.errs) > 0 {
		return fmt.Errorf("%d processes in %d groups, parents %v, %d messages, at %v:\n%v\n%s",
			len(r.ids), len(r.groups), r.parents, len(h.Multicasts), r.net.Now(), r.errs[:min(10, len(r.errs))], check.Describe(found))
	}
	return nil
}

// samePlaces: the members of a group deliver a message at the same place of the log, in ascending order.
func (r *tramRun) samePlaces() (errs []error) {
	type place struct {
		group multicast.GroupID
		at    multicast.Timestamp
	}
	message, last := map[place]multicast.MessageID{}, map[multicast.ProcessID]multicast.Timestamp{}
	for _, d := range r.history.Deliveries {
		at := place{r.processes[d.Process].group.ID, d.Final}
		if first, ok := message[at]; ok && first != d.ID {
			errs = append(errs, fmt.Errorf("process %d delivers %v at %d, another member %v", d.Process, d.ID, d.Final, first))
		}
		message[at] = d.ID
		if d.Final <= last[d.Process] {
			errs = append(errs, fmt.Errorf("process %d delivers %v at %d after %d", d.Process, d.ID, d.Final, last[d.Process]))
		}
		last[d.Process] = d.Final
	}
	return errs
}

// path gives the groups that take part in a message: the lca of the destinations and all below on the way.
func (r *tramRun) path(dest []multicast.GroupID) (lca multicast.GroupID, all map[multicast.GroupID]bool) {
	up := func(g multicast.GroupID) (way []multicast.GroupID) {
		for {
			way = append(way, g)
			next, ok := r.parents[g]
			if !ok {
				slices.Reverse(way)
				return way
			}
			g = next
		}
	}
	common := up(dest[0])
	for _, g := range dest {
		way, n := up(g), 0
		for n < min(len(way), len(common)) && way[n] == common[n] {
			n++
		}
		common = common[:n]
	}
	all = map[multicast.GroupID]bool{}
	for _, g := range dest {
		for _, h := range up(g)[len(common)-1:] {
			all[h] = true
		}
	}
	return common[len(common)-1], all
}

// strangers checks that a process contacts another one only when a message was multicast that concerns both:
// the sender and the lca, a group on the path, or one and its child (the paper's partial genuineness, link by
// link).
func (r *tramRun) strangers() (errs []error) {
	type link struct{ a, b multicast.GroupID }
	type client struct {
		p multicast.ProcessID
		g multicast.GroupID
	}
	links, clients := map[link]time.Duration{}, map[client]time.Duration{}
	for _, m := range r.history.Multicasts {
		lca, all := r.path(m.Dest)
		if _, ok := clients[client{m.ID.Sender, lca}]; !ok {
			clients[client{m.ID.Sender, lca}] = m.At
		}
		for g := range all {
			for _, l := range []link{{g, g}, {g, r.parents[g]}, {r.parents[g], g}} {
				if at, ok := links[l]; all[l.a] && all[l.b] && (!ok || m.At < at) {
					links[l] = m.At
				}
			}
		}
	}
	for pair, at := range r.sends {
		from, to := r.processes[pair[0]].group.ID, r.processes[pair[1]].group.ID
		fine := from == to && r.restarted(from) // who restarts tells its group
		for _, since := range []struct {
			at time.Duration
			ok bool
		}{lookUp(links, link{from, to}), lookUp(clients, client{pair[0], to}), lookUp(clients, client{pair[1], from})} {
			fine = fine || since.ok && since.at <= at
		}
		if !fine {
			errs = append(errs, fmt.Errorf("process %d of group %d turns to process %d of group %d at %v: no message concerns both", pair[0], from, pair[1], to, at))
		}
	}
	slices.SortFunc(errs, func(a, b error) int { return cmp.Compare(a.Error(), b.Error()) })
	return errs
}

func lookUp[K comparable](m map[K]time.Duration, key K) (found struct {
	at time.Duration
	ok bool
}) {
	found.at, found.ok = m[key]
	return found
}
