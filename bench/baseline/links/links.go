// Package links has the links of the baseline protocols: packets for a process gather in one frame for each
// step, and wait until the link has started.
package links

import (
	"slices"

	"github.com/globalfs/globalfs/internal/varint"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// maxScratch is how large the buffer of a frame may be to be used again.
const maxScratch = 1 << 20

// Link is the link to another process.
type Link struct {
	Frame []byte // of this step
	up    bool   // it has started: until then packets gather
}

// Start records that the link has started.
func (l *Link) Start() { l.up = true }

// Receive takes in a frame of the process up to the first packet that is malformed, or the start of the link.
// packet reads and handles a packet; it returns false if the packet cannot be. Receive returns false after
// such a packet.
func (l *Link) Receive(frame []byte, packet func(r *varint.Reader) bool) bool {
	if len(frame) == 0 {
		l.Start()
		return true
	}
	for r := varint.NewReader(frame); r.Len() > 0; {
		if !packet(r) || r.Err() != nil {
			return false
		}
	}
	return true
}

// Flush hands over the frame of this step.
func (l *Link) Flush(to multicast.ProcessID, out *multicast.Output) {
	if len(l.Frame) == 0 || !l.up {
		return
	}
	out.Frames = append(out.Frames, multicast.Frame{Peer: to, Data: slices.Clone(l.Frame)})
	if l.Frame = l.Frame[:0]; cap(l.Frame) > maxScratch {
		l.Frame = nil
	}
}
