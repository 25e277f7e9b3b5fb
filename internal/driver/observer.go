package driver

import (
	"time"

	"github.com/globalfs/globalfs/internal/turn"
)

// Observer observes the turns of a driver, for traces. The goroutine that takes the turn calls it.
type Observer interface {
	// Observes reports whether the turn that begins is to be observed. Each turn calls it, so it must be
	// cheap.
	Observes() bool
	// Turn reports a turn after its last step. The arguments are valid until Turn returns. replies are the
	// replies of the applied deliveries; the other replies are in out.
	Turn(at *Moments, in *turn.Input, out *turn.Output, replies []turn.Call)
}

// Moments are the times at which the steps of a turn ended (package driver).
type Moments struct {
	Begun    time.Time // before the input was gathered
	Stepped  time.Time // the node had stepped; its immediate replies had left
	Logged   time.Time // the records were as durable as the step demands
	Sent     time.Time // the frames had left
	Executed time.Time // the deliveries were applied; their replies were about to leave
}

// Observe sets the observer. It is called before Run, at most once.
func (d *Driver) Observe(o Observer) { d.observer = o }

// mark sets a moment of the present turn to now, if the turn is observed.
func (t *turns) mark(moment *time.Time) {
	if t.observed {
		*moment = time.Now()
	}
}
