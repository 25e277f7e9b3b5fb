package turn

import (
	"time"

	"github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/pkg/fabric"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// Call is a request of a client, or the reply to it. The stepper chooses the Token of a request; it is unique
// during the life of the node. The reply has the Token of its request.
type Call struct {
	Token uint64
	Data  []byte      // for a replica: an encoded ask.Request or ask.Reply
	From  *ask.Client // of a request: its client; nil: one of the cluster's own processes
}

// Input of a step is the input of the multicast core together with the requests of clients. The node may keep
// the Data of a Call and must not change them.
type Input struct {
	multicast.Input
	Requests []Call
	// Withdrawn are tokens of requests that their clients have given up: in the step of the request or in a
	// later one, also if the request was answered meanwhile. The stepper drops further replies. The client
	// reports a failure to its user, so the node must not order the request in a later step.
	Withdrawn []uint64
	// Completions are the ends of operations on the memory of others, of a node with one-sided memory.
	Completions []fabric.Completion
}

// Reset empties in for reuse.
func (in *Input) Reset() {
	in.Input.Reset()
	clear(in.Requests)
	clear(in.Completions)
	in.Requests, in.Withdrawn, in.Completions = in.Requests[:0], in.Withdrawn[:0], in.Completions[:0]
}

// Output of a step is the output of the multicast core together with the replies to clients.
type Output struct {
	multicast.Output
	Replies []Call // that wait for no record
	// Persisted are replies that confirm that the log is on disk: they leave after the sync of this step. A
	// step that has them also has Sync set.
	Persisted []Call
	// Rights and Ops are changes of the rights to the memory of this process, and operations on the memory of
	// others. They wait for the records, like frames, and the rights change first.
	Rights []fabric.Right
	Ops    []fabric.Op
}

// Reset empties out for reuse.
func (out *Output) Reset() {
	out.Output.Reset()
	clear(out.Replies)
	clear(out.Persisted)
	clear(out.Ops)
	out.Replies, out.Persisted = out.Replies[:0], out.Persisted[:0]
	out.Rights, out.Ops = out.Rights[:0], out.Ops[:0]
}

// Node is a core with its state machine. Its methods are called by one goroutine at a time.
type Node interface {
	// Step consumes in and fills out, which the caller has reset. It neither blocks nor fails.
	Step(in *Input, out *Output)
	// Syncs reports whether Apply(out) will wait for the disk.
	Syncs(out *Output) bool
	// Apply executes out.Deliveries of a step with durable records, in order, and returns the replies
	// that result. An error means that the state machine has failed: the node must not be called again.
	Apply(out *Output) ([]Call, error)
	// Wake is the latest time of the next step, on Instant.Mono; 0: step only after an event. It is valid
	// until the next call of Step or Apply, next to Output.Wake of the last step.
	Wake() time.Duration
}
