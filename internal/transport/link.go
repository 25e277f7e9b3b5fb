package transport

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/globalfs/globalfs/internal/wire"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// An acknowledgement is sent when the owner has taken ackFrames frames or ackBytes bytes. Smaller amounts are
// acknowledged by the next packet that leaves for another reason.
const (
	ackFrames = 64
	ackBytes  = Window / 16
)

// generation identifies a life of one end of a link: the start of its process (incarnation), and the number
// of restarts of the link since then. The zero generation is unknown.
type generation struct{ incarnation, restarts uint64 }

func (g generation) compare(other generation) int {
	return cmp.Or(cmp.Compare(g.incarnation, other.incarnation), cmp.Compare(g.restarts, other.restarts))
}

func generationOf(g *wire.Generation) generation {
	return generation{g.GetIncarnation(), g.GetRestarts()}
}

func (g generation) encode() *wire.Generation {
	return &wire.Generation{Incarnation: g.incarnation, Restarts: g.restarts}
}

// link is one end of a link over streams that may break. It is a state machine with packets as input and
// output. A packet may be lost only when a later stream replaces its stream, and the owner calls resume for
// each new stream. Packets of one stream arrive in order, but packets of an older stream may arrive in
// between.
//
// A session is identified by a pair of generations, one of each end.
//
//   - An end begins a session when a packet shows that the other end knows its present generation. So frames
//     of different sessions cannot be confused.
//   - A session ends when either generation grows, because the process restarts or the window has overflowed.
//     The same pair never occurs again.
//   - An end sends nothing while its owner has not taken all frames of earlier sessions. So the next session
//     begins only after that.
//
// INVARIANTS
//   - first <= the number of each frame in queue; the peer's owner has taken all frames before first
//   - acknowledged <= accepted <= arrived; unread is the size of the frames between accepted and arrived
//   - bytes is the size of queue and at most Window; unread + stale exceeds Window by at most a start
//   - stale is 0 if started
//   - queue is empty unless started
type link struct {
	peer         multicast.ProcessID
	mine, theirs generation
	started      bool // the session of the generations mine and theirs has begun
	unaccepted   int  // number of starts that the owner has not accepted
	full         bool // the window has overflowed: frames are refused until the next session
	due          bool // a packet must be sent, also without frames

	// The sending half.
	queue   [][]byte
	first   uint64 // the number of queue[0]; numbers begin at 1 in each session
	written int    // number of frames of queue that were written to the present stream
	bytes   int

	// The receiving half.
	arrived, accepted, acknowledged uint64 // numbers of the last frames that have arrived, were taken, were acknowledged
	unread                          int    // bytes that have arrived and are not taken
	stale                           int    // bytes of earlier sessions that are not taken
	unacknowledged                  int    // bytes that are taken and not acknowledged
}

func newLink(peer multicast.ProcessID, incarnation uint64) link {
	return link{peer: peer, mine: generation{incarnation: incarnation}, first: 1, due: true}
}

func sizeOf(frame []byte) int { return len(frame) + frameOverhead }

// send queues a frame, or drops it if it belongs to no session.
func (k *link) send(frame []byte) error {
	switch {
	case len(frame) > MaxFrame:
		k.overflow()
		return tooLong(k.peer, frame)
	case k.full || k.bytes+sizeOf(frame) > Window:
		k.overflow()
		return fmt.Errorf("link to process %d: %w", k.peer, ErrBacklog)
	case k.started && k.unaccepted == 0:
		k.queue = append(k.queue, frame)
		k.bytes += sizeOf(frame)
	}
	return nil
}

// overflow ends the session, because a frame is lost and the peer must not receive later ones.
func (k *link) overflow() {
	if !k.full {
		k.end()
		k.full = true
		k.mine.restarts++
	}
}

// accept records that the owner has answered a start.
func (k *link) accept() { k.unaccepted = max(0, k.unaccepted-1) }

// end drops the session and its queue. The next packet reports it to the peer.
func (k *link) end() {
	k.started = false
	k.due = true
	k.stale += k.unread
	k.queue, k.first, k.written, k.bytes = nil, 1, 0, 0
	k.arrived, k.accepted, k.acknowledged, k.unread, k.unacknowledged = 0, 0, 0, 0, 0
}

// begin starts the session of the generations mine and theirs. The next packet reports it to the peer.
func (k *link) begin() {
	k.started, k.full, k.due = true, false, true
	k.unaccepted++
	k.unread = sizeOf(nil) // the start is taken like a frame
}

// receive takes a packet. It returns the new frames; start means that the session has begun before them. An
// error is always the fault of the peer: the caller must break the stream, so that the peer sends again.
func (k *link) receive(p *wire.Packet) (start bool, frames [][]byte, err error) {
	source, target := generationOf(p.Source), generationOf(p.Target)
	switch c := source.compare(k.theirs); {
	case source.incarnation == 0:
		return false, nil, fmt.Errorf("process %d gives no incarnation", k.peer)
	case c < 0:
		return false, nil, nil // from an earlier generation
	case c > 0:
		k.end()
		k.theirs = source
	}
	if target != k.mine || k.stale > 0 {
		k.due = true // it does not know this end yet
		return false, nil, nil
	}
	if !k.started {
		start = true
		k.begin()
	}
	if err := k.forget(p.Taken); err != nil {
		return start, nil, err
	}
	frames, err = k.arrive(p.First, p.Frames)
	return start, frames, err
}

// forget removes the frames up to a number from the queue, because the peer has taken them.
func (k *link) forget(taken uint64) error {
	if taken < k.first {
		return nil
	}
	n := taken - k.first + 1
	if n > uint64(len(k.queue)) {
		return fmt.Errorf("process %d acknowledges frame %d, which it was not sent", k.peer, taken)
	}
	for i := range k.queue[:n] {
		k.bytes -= sizeOf(k.queue[i])
		k.queue[i] = nil
	}
	k.queue = k.queue[n:]
	k.first += n
	k.written = max(0, k.written-int(n)) // the acknowledgement may come over an older stream
	return nil
}

// arrive returns the new frames.
func (k *link) arrive(first uint64, frames [][]byte) ([][]byte, error) {
	if len(frames) == 0 {
		return nil, nil
	}
	if first > k.arrived+1 || first == 0 {
		return nil, fmt.Errorf("process %d sends frame %d after frame %d", k.peer, first, k.arrived)
	}
	known := k.arrived + 1 - first
	if known >= uint64(len(frames)) {
		return nil, nil
	}
	frames = frames[known:]
	for i, f := range frames {
		if len(f) == 0 || len(f) > MaxFrame || k.unread+sizeOf(f) > Window+sizeOf(nil) {
			return frames[:i], fmt.Errorf("process %d sends a frame of %d bytes with %d in the window", k.peer, len(f), k.unread)
		}
		k.arrived++
		k.unread += sizeOf(f)
	}
	return frames, nil
}

// took records that the owner has taken a frame, or a start. No session begins before the owner has taken all
// frames of earlier sessions.
func (k *link) took(frame []byte) {
	size := sizeOf(frame)
	if !k.started {
		k.stale -= size
		return
	}
	k.unread -= size
	if len(frame) == 0 {
		return
	}
	k.accepted++
	k.unacknowledged += size
	if k.accepted-k.acknowledged >= ackFrames || k.unacknowledged >= ackBytes {
		k.due = true
	}
}

// resume records that there is a new stream to the peer. Packets on older streams may be lost.
func (k *link) resume() {
	k.written = 0
	k.due = true
}

// ready reports whether there is a packet to write. There is none while the owner has not taken all frames of
// earlier sessions: otherwise each session would have a window of its own.
func (k *link) ready() bool { return k.stale == 0 && (k.due || k.written < len(k.queue)) }

// next returns the packet to write now, with frames of at most limit bytes or a single longer one.
func (k *link) next(self multicast.ProcessID, limit int) *wire.Packet {
	p := &wire.Packet{From: uint32(self), To: uint32(k.peer), Source: k.mine.encode(), Target: k.theirs.encode()}
	k.due = false
	if !k.started {
		return p
	}
	p.Taken = k.accepted
	k.acknowledged, k.unacknowledged = k.accepted, 0
	n, size := k.written, 0
	for n < len(k.queue) && (n == k.written || size+sizeOf(k.queue[n]) <= limit) {
		size += sizeOf(k.queue[n])
		n++
	}
	if n > k.written {
		p.First = k.first + uint64(k.written)
		p.Frames = slices.Clone(k.queue[k.written:n])
		k.written = n
	}
	return p
}
