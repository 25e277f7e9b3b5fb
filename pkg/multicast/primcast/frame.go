package primcast

import (
	"slices"

	"github.com/globalfs/globalfs/internal/invariant"
	"github.com/globalfs/globalfs/internal/varint"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// The bytes that a step sends to a peer are bounded. Content (START) enters a frame only while there is room;
// the rest is kept for the next steps. Other packets are small, but there may be many of them: packets beyond
// the bound stay in peer.frame for the next step, before all later packets. To the peer this looks like a
// process that takes more steps, because links are FIFO, and a link that restarts loses the waiting packets
// together with those on the way.

// DefaultMaxFrame is 4 MiB.
const DefaultMaxFrame = 4 << 20

// maxPacket is the longest packet: a START with the longest payload, to all possible groups.
const maxPacket = multicast.MaxPayload + 1<<18

// room reports whether content for q may still be put into its frame.
func (c *system) room(q *peer) bool { return len(q.frame) < c.config.MaxFrame }

// flush outputs the frames of this step. It adds to each frame the own coverage that the receiver needs
// (trim.go).
func (c *system) flush(out *multicast.Output) {
	for _, q := range c.order {
		if len(q.frame) == 0 {
			continue
		}
		c.sendCovered(q)
		n := c.fitting(q.frame)
		if n > max(c.config.MaxFrame, maxPacket) {
			invariant.Broken("a frame of %d bytes for process %d: more than %d, and than one packet", n, q.id, c.config.MaxFrame)
		}
		early := min(n, c.earlyPart(q))
		if early > 0 {
			out.Early = append(out.Early, multicast.Frame{Peer: q.id, Data: slices.Clone(q.frame[:early])})
		}
		if early < n {
			out.Frames = append(out.Frames, multicast.Frame{Peer: q.id, Data: slices.Clone(q.frame[early:n])})
		}
		q.frame, q.early = slices.Delete(q.frame, 0, n), 0
		if len(q.frame) > 0 {
			wake(out, c.now)
		} else if cap(q.frame) > maxScratch {
			q.frame = nil
		}
	}
}

// fitting returns the total length of the first packets of b that leave in one frame: as many as fit, and at
// least one.
func (c *system) fitting(b []byte) int {
	if len(b) <= c.config.MaxFrame {
		return len(b)
	}
	f, n := frameReader{frame: *varint.NewReader(b)}, 0
	for f.frame.Err() == nil && n < c.config.MaxFrame {
		f.next()
		end := len(b) - f.frame.Len()
		if n > 0 && end > c.config.MaxFrame {
			break
		}
		n = end
	}
	invariant.Check(f.frame.Err() == nil, "a packet for a peer does not decode: %v", f.frame.Err())
	return n
}
