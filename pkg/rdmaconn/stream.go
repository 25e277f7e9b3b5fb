package rdmaconn

import (
	"encoding/binary"
	"fmt"

	"github.com/globalfs/globalfs/pkg/fabric"
)

// The layout of a region: three words that the peer writes, and the ring.
const (
	headAt   = 0
	creditAt = 8
	endAt    = 16
	ringAt   = 64
)

// stream is a state machine for both directions of a connection. It reads the region of this side, and
// produces operations on the region of the peer.
type stream struct {
	memory fabric.Memory // the region of this side, which the peer writes
	peer   fabric.NodeID
	region fabric.RegionID // the region of the peer
	ring   uint64          // the size of the ring in bytes, on both sides
	ops    []fabric.Op     // the operations to post, in order
	// The direction to the peer:
	sent   uint64 // bytes written
	credit uint64 // bytes that the peer has consumed; at most sent
	ended  bool
	// The direction from the peer:
	head     uint64 // bytes that have arrived
	taken    uint64 // bytes that were read; at most head
	reported uint64 // bytes that were reported to the peer as read; at most taken
	finished bool   // the peer's stream ends at head
}

// look reads and validates the words of the peer.
func (s *stream) look() error {
	var b [ringAt]byte
	s.memory.Load(0, b[:])
	word := func(at int) uint64 { return binary.LittleEndian.Uint64(b[at:]) }
	head, credit, end := word(headAt), word(creditAt), word(endAt)
	switch {
	case head < s.head || head-s.taken > s.ring:
		return fmt.Errorf("rdmaconn: the peer has written %d bytes behind %d, of which %d were read, with a ring of %d: it is broken", head, s.head, s.taken, s.ring)
	case credit < s.credit || credit > s.sent:
		return fmt.Errorf("rdmaconn: the peer has consumed %d bytes behind %d, of %d: it is broken", credit, s.credit, s.sent)
	case s.finished && head != s.head:
		return fmt.Errorf("rdmaconn: the peer has written %d bytes behind the end of its stream at %d: it is broken", head-s.head, s.head)
	}
	s.head, s.credit = head, credit
	s.finished = end != 0 && end-1 == head
	return nil
}

// room returns the number of bytes for which write has room.
func (s *stream) room() int { return int(s.ring - (s.sent - s.credit)) }

// write produces the operations for the bytes of p for which there is room, and returns their number. It
// copies the bytes.
func (s *stream) write(p []byte) int {
	n := min(len(p), s.room())
	if n == 0 {
		return 0
	}
	data := append([]byte(nil), p[:n]...)
	for len(data) > 0 {
		at := s.sent % s.ring
		piece := data[:min(uint64(len(data)), s.ring-at)]
		s.post(ringAt+int(at), piece, false)
		data = data[len(piece):]
		s.sent += uint64(len(piece))
	}
	s.word(headAt, s.sent)
	return n
}

// end tells the peer that the stream has no further bytes.
func (s *stream) end() {
	if !s.ended {
		s.ended = true
		s.word(endAt, s.sent+1)
	}
}

// read copies bytes that have arrived to p, and returns their number.
func (s *stream) read(p []byte) int {
	n := int(min(uint64(len(p)), s.head-s.taken))
	for p = p[:n]; len(p) > 0; {
		at := s.taken % s.ring
		piece := p[:min(uint64(len(p)), s.ring-at)]
		s.memory.Load(ringAt+int(at), piece)
		p = p[len(piece):]
		s.taken += uint64(len(piece))
	}
	if s.taken-s.reported >= s.ring/4 {
		s.reported = s.taken
		s.word(creditAt, s.taken)
	}
	return n
}

// readable returns the number of bytes that read can return.
func (s *stream) readable() int { return int(s.head - s.taken) }

func (s *stream) word(at int, v uint64) { s.post(at, binary.LittleEndian.AppendUint64(nil, v), true) }

func (s *stream) post(at int, data []byte, notify bool) {
	s.ops = append(s.ops, fabric.Op{Peer: s.peer, Region: s.region, At: at, Data: data, Notify: notify})
}
