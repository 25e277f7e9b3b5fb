package driver

import (
	"time"

	"github.com/globalfs/globalfs/internal/turn"
)

// Observer observes the turns of a driver, for traces. The goroutine that takes a turn calls it.
type Observer interface {
	// Observes reports whether Turn is to be called for the turn that begins. It is cheap: each turn asks.
	Observes() bool
	// Turn reports a turn after its last step. The arguments are valid until Turn returns. replies are those
	// of executed deliveries; out has the others.
	Turn(at *Moments, in *turn.Input, out *turn.Output, replies []turn.Call)
}

// Moments are the times of the steps of a turn.
type Moments struct {
	Begun    time.Time // all ready input was about to be taken
	Stepped  time.Time // the node had stepped; immediate answers had left
	Logged   time.Time // the records were as durable as the step demands
	Sent     time.Time // the frames had left
	Executed time.Time // the deliveries were executed; their answers were about to leave
}

// Observe sets the observer. It is called before Run, at most once.
func (d *Driver) Observe(o Observer) { d.observer = o }

// mark sets a moment of the present turn to now, if the turn is observed.
func (t *turns) mark(moment *time.Time) {
	if t.observed {
		*moment = time.Now()
	}
}
