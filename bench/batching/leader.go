package batching

import (
	"time"

	model "github.com/globalfs/globalfs/pkg/batching"
)

// Config of a simulated leader.
type Config struct {
	System   model.System
	Workload model.Workload
	Window   int           // WND: instances under way at most
	Requests int           // BSZ, as requests in a batch at most
	Clients  int           // in a closed loop
	Timeout  time.Duration // a batch that is not full leaves after this time
	Duration time.Duration // measured virtual time; a tenth of it passes before
}

// Measured is what a simulated run gives.
type Measured struct {
	Throughput float64       // requests a second
	Instances  float64       // instances a second
	Instance   time.Duration // mean time from the proposal of an instance to its decision
	Client     time.Duration // mean time from a request to its answer
	CPU        float64       // share of the time in which the leader's CPU was busy
}

// leader is the simulation of one run.
type leader struct {
	Config
	timeline

	cpu   resource
	links []resource // one in a LAN, one for each other replica in a WAN

	batch    []time.Duration // requests of the open batch, by the times of their clients
	opened   uint64          // number of the open batch
	full     [][]time.Duration
	underWay int

	warm      time.Duration
	answers   int
	decisions int
	waited    time.Duration // of clients
	took      time.Duration // of instances
}

// Simulate runs a leader. The same Config gives the same result.
func Simulate(c Config) Measured {
	l := &leader{Config: c, links: make([]resource, 1), warm: c.Duration / 10}
	if c.System.WAN {
		l.links = make([]resource, c.System.Replicas-1)
	}
	for range c.Clients {
		l.request()
	}
	end := l.warm + c.Duration
	for at, ok := l.events.Next(); ok && at <= end; at, ok = l.events.Next() {
		l.next()
	}
	seconds := c.Duration.Seconds()
	return Measured{
		Throughput: float64(l.answers) / seconds,
		Instances:  float64(l.decisions) / seconds,
		Instance:   l.took / time.Duration(max(l.decisions, 1)),
		Client:     l.waited / time.Duration(max(l.answers, 1)),
		CPU:        l.cpu.busy.Seconds() / seconds,
	}
}

// use gives a resource a piece of work that begins now, or when the resource is free. It returns the end.
func (l *leader) use(r *resource, work time.Duration) time.Duration {
	if l.now >= l.warm {
		r.busy += work
	}
	return r.use(l.now, work)
}

// request is a client's next request, at the leader at once.
func (l *leader) request() {
	w, sent := l.Workload, l.now
	cost := l.System.Client.Of(w.Request + w.RequestHeader + w.Answer)
	l.at(l.use(&l.cpu, cost/2), func() { l.add(sent) })
}

func (l *leader) add(sent time.Duration) {
	l.batch = append(l.batch, sent)
	if len(l.batch) == 1 {
		l.opened++
		opened := l.opened
		l.at(l.now+l.Timeout, func() {
			if opened == l.opened && len(l.batch) > 0 {
				l.close()
			}
		})
	}
	if len(l.batch) == l.Requests {
		l.close()
	}
}

func (l *leader) close() {
	l.full = append(l.full, l.batch)
	l.batch = nil
	l.propose()
}

// propose starts instances while the window allows.
func (l *leader) propose() {
	for l.underWay < l.Window && len(l.full) > 0 {
		batch := l.full[0]
		l.full = l.full[1:]
		l.underWay++
		l.send(batch)
	}
}

func (l *leader) send(batch []time.Duration) {
	s, began := l.System, l.now
	bytes := l.Workload.Batch(len(batch))
	cost := s.Replica.Of(bytes + l.Workload.Accept)
	accepted := 0
	for i := range s.Replicas - 1 {
		link := &l.links[i%len(l.links)]
		l.at(l.use(&l.cpu, cost/2), func() {
			sent := l.use(link, transfer(&l.System, bytes))
			l.at(sent+2*s.Delay, func() {
				l.at(l.use(&l.cpu, cost-cost/2), func() {
					if accepted++; accepted == s.Replicas/2 {
						l.decide(batch, began)
					}
				})
			})
		})
	}
}

// decide executes the requests of an instance and answers them.
func (l *leader) decide(batch []time.Duration, began time.Duration) {
	if l.now >= l.warm {
		l.decisions++
		l.took += l.now - began
	}
	l.underWay--
	l.propose()
	w := l.Workload
	cost := l.System.Client.Of(w.Request + w.RequestHeader + w.Answer)
	for _, sent := range batch {
		l.at(l.use(&l.cpu, w.Execute+cost-cost/2), func() {
			answered := l.now
			if !l.System.WAN {
				answered = l.use(&l.links[0], transfer(&l.System, w.Answer))
			}
			l.at(answered, func() { l.answer(sent) })
		})
	}
}

func (l *leader) answer(sent time.Duration) {
	if l.now >= l.warm {
		l.answers++
		l.waited += l.now - sent
	}
	l.request()
}
