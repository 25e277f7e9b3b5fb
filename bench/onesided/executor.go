package onesided

import (
	"time"

	"github.com/globalfs/globalfs/pkg/fabric"
	"github.com/globalfs/globalfs/pkg/heron"
	"github.com/globalfs/globalfs/pkg/multicast"
	"github.com/globalfs/globalfs/pkg/multicast/tram"
)

// executor puts package heron on a process of a model.
type executor struct {
	trial    *trial
	process  *process
	core     *heron.Core
	app      *tpcc
	accesses int // to rows, until now
	mine     []fabric.Completion
	out      heron.Output
}

func (t *trial) execute(p *process, groups []multicast.Group) error {
	x := &executor{trial: t, process: p, app: &tpcc{}}
	core, err := heron.New(heron.Config{
		Self: p.id, Groups: groups, App: x.app, Objects: rows, ObjectSize: rowSize, Patience: t.cfg.Patience, HelpAfter: 100 * time.Microsecond,
	})
	if err != nil {
		return err
	}
	x.core = core
	for _, r := range core.Regions() {
		memory, err := p.endpoint.Register(r.ID, r.Size)
		if err != nil {
			return err
		}
		core.Attach(r.ID, memory)
	}
	p.executor = x
	return nil
}

// split takes the completions of Heron, and returns those of TRAM.
func (x *executor) split(all []fabric.Completion) (others []fabric.Completion) {
	x.mine = nil
	for _, c := range all {
		if heron.Owns(c.Region) {
			x.mine = append(x.mine, c)
		} else {
			others = append(others, c)
		}
	}
	return others
}

// step executes the deliveries of a step of TRAM. It returns the CPU time.
func (x *executor) step(out *tram.Output) time.Duration {
	t := x.trial
	x.out = heron.Output{}
	x.app.accesses = 0
	for i := range out.Deliveries {
		t.delivered(x.process, &out.Deliveries[i])
	}
	x.core.Step(&heron.Input{Now: x.process.model.net.Now(), Deliveries: append([]multicast.Delivery{}, out.Deliveries...), Completions: x.mine}, &x.out)
	out.Rights = append(out.Rights, x.out.Rights...)
	x.accesses += x.app.accesses
	return time.Duration(len(x.out.Ops)+len(x.mine))*t.cfg.Cost.Op + time.Duration(x.app.accesses)*t.cfg.Access
}

// release posts the operations of Heron, and gives the responses to the clients.
func (x *executor) release(out *tram.Output) {
	m := x.process.model
	if err := x.process.endpoint.Post(x.out.Ops...); err != nil {
		m.err = err
	}
	for i := range x.out.Responses {
		x.trial.answered(x.process, &x.out.Responses[i])
	}
	if wake := x.out.Wake; wake > 0 && (out.Wake == 0 || wake < out.Wake) {
		out.Wake = wake
	}
}
