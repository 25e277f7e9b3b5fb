package onesided

import (
	"time"

	"github.com/globalfs/globalfs/internal/order"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// silenceAfter is the silence of the leader after which a member multicasts a probe, in multiples of
// SuspectAfter. A leader sends four times as often.
const silenceAfter = 4

// watch is the information of a member about the leader while the group has nothing to order.
type watch struct {
	silence    time.Duration // after which a member multicasts a probe
	lastActive time.Duration // the time of the last frame of a leader, or of the last delivery
	lastSent   time.Duration // the time at which this process, as the leader, last sent its frames
	probing    bool          // probe is not delivered yet
	probe      multicast.MessageID
}

// listen processes the frames of leaders, and multicasts a probe after too much silence.
func (c *Core) listen(frames []multicast.Frame, now time.Duration) {
	w := &c.watch
	for _, f := range frames {
		if len(f.Data) > 0 {
			w.lastActive = now
		}
	}
	if !c.core.Leads() && !w.probing && now >= w.lastActive+w.silence {
		w.lastActive, w.probing = now, true
		w.probe = c.probe()
	}
}

// probe multicasts a message without content.
func (c *Core) probe() multicast.MessageID { return c.multicast([]byte{kindProbe}) }

// speak makes a leader send its frames, and sets the time of the next step.
func (c *Core) speak(out *multicast.Output, now time.Duration) {
	w := &c.watch
	if len(c.out.Deliveries) > 0 {
		w.lastActive = now
	}
	due := w.lastActive + w.silence
	if c.Leads() {
		if every := w.silence / 4; w.lastSent == 0 || now >= w.lastSent+every {
			w.lastSent = max(now, 1)
			for _, p := range c.seats.nodes() {
				if p != c.cfg.Self {
					out.Frames = append(out.Frames, multicast.Frame{Peer: p, Data: []byte{kindProbe}})
				}
			}
		}
		w.lastActive, due = now, w.lastSent+w.silence/4
	} else if w.probing {
		return // its delivery makes a step
	}
	out.Wake = order.Earliest(out.Wake, max(due, now+1))
}
