package rdmaconn

import (
	"encoding/binary"
	"fmt"

	"github.com/globalfs/globalfs/pkg/fabric"
)

// The layout of a region: three words of the peer, and the ring.
const (
	headAt   = 0
	creditAt = 8
	endAt    = 16
	ringAt   = 64
)

// stream is both directions of a connection, as a state machine. It reads its own region, and gives
// operations on the peer's.
type stream struct {
	memory fabric.Memory // written by the peer
	peer   fabric.NodeID
	region fabric.RegionID // of the peer
	ring   uint64          // bytes, on both sides
	ops    []fabric.Op     // to post, in order
	// Out:
	sent   uint64 // bytes written
	credit uint64 // bytes that the peer has consumed; at most sent
	ended  bool
	// In:
	head     uint64 // bytes that have arrived
	taken    uint64 // bytes that were read; at most head
	reported uint64 // bytes that the peer knows as read; at most taken
	finished bool   // the peer's stream ends at head
}

// look takes the words of the peer.
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

// room is how many bytes write takes.
func (s *stream) room() int { return int(s.ring - (s.sent - s.credit)) }

// write takes bytes as far as there is room. It keeps no part of p.
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

// end ends the own stream.
func (s *stream) end() {
	if !s.ended {
		s.ended = true
		s.word(endAt, s.sent+1)
	}
}

// read returns bytes that have arrived.
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

// readable is how many bytes read gives.
func (s *stream) readable() int { return int(s.head - s.taken) }

func (s *stream) word(at int, v uint64) { s.post(at, binary.LittleEndian.AppendUint64(nil, v), true) }

func (s *stream) post(at int, data []byte, notify bool) {
	s.ops = append(s.ops, fabric.Op{Peer: s.peer, Region: s.region, At: at, Data: data, Notify: notify})
}
