package sim

import (
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
