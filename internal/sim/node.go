package sim

import (
	"time"

	"github.com/globalfs/globalfs/pkg/multicast"
)

// Call is a request of a client, or the answer to it, paired by Token.
type Call struct {
	Token uint64
	Data  []byte
}

// Input of a step: what a multicast core gets, and requests.
type Input struct {
	multicast.Input
	Requests []Call
}

// Output of a step: what a multicast core asks for, and answers that need no gate.
type Output struct {
	multicast.Output
	Replies []Call
}

// Node is what runs on a process: a core, and what its deliveries are applied to.
type Node interface {
	// Step takes what is ready and fills out, which is empty. As for a multicast.Core, the
	// records become durable before frames and deliveries leave.
	Step(in *Input, out *Output)
	// Apply is called once for each step, in order, when its output leaves, and applies
	// out.Deliveries. It gives the answers that they make possible.
	Apply(out *Output) []Call
	// Wake asks for a step like Output.Wake, after an Apply.
	Wake() time.Duration
}

// Boot makes the Node of a process that starts, for the first time or again. Incarnation counts
// its starts from 1; records are the durable ones, in order, from the last
// checkpoint on. An error ends the run.
type Boot func(self multicast.ProcessID, incarnation uint64, records [][]byte) (Node, error)
