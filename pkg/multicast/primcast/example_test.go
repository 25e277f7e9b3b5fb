package primcast_test

import (
	"fmt"

	"github.com/globalfs/globalfs/pkg/multicast"
	"github.com/globalfs/globalfs/pkg/multicast/primcast"
)

// Two groups of one process each, in memory. A real driver gathers the ready input, steps, makes the records
// durable, and then sends the frames and applies the deliveries; this one forgets the records.
func Example() {
	groups := []multicast.Group{{ID: 0, Members: []multicast.ProcessID{1}}, {ID: 1, Members: []multicast.ProcessID{2}}}
	cores := map[multicast.ProcessID]*primcast.Core{}
	inputs := map[multicast.ProcessID]*multicast.Input{}
	for _, p := range []multicast.ProcessID{1, 2} {
		core, err := primcast.New(primcast.Config{Self: p, Groups: groups})
		if err != nil {
			panic(err)
		}
		cores[p] = core
		// Each link starts with an empty frame, also the one to oneself.
		inputs[p] = &multicast.Input{Frames: []multicast.Frame{{Peer: 1}, {Peer: 2}}}
	}
	inputs[1].Proposed = []multicast.Message{
		{ID: multicast.MessageID{Sender: 1, Seq: 1}, Dest: []multicast.GroupID{0, 1}, Payload: []byte("to both")},
		{ID: multicast.MessageID{Sender: 1, Seq: 2}, Dest: []multicast.GroupID{1}, Payload: []byte("to the other")},
	}
	for range 6 { // communication steps
		next := map[multicast.ProcessID]*multicast.Input{1: {}, 2: {}}
		for _, p := range []multicast.ProcessID{1, 2} {
			var out multicast.Output
			cores[p].Step(inputs[p], &out)
			for _, f := range out.Frames {
				next[f.Peer].Frames = append(next[f.Peer].Frames, multicast.Frame{Peer: p, Data: f.Data})
			}
			for _, d := range out.Deliveries {
				fmt.Printf("process %d delivers %q at %d\n", p, d.Payload, d.Final)
			}
		}
		inputs = next
	}
	// Unordered output:
	// process 1 delivers "to both" at 2
	// process 2 delivers "to both" at 2
	// process 2 delivers "to the other" at 3
}
