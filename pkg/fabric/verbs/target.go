//go:build verbs

package verbs

import (
	"encoding/binary"
	"math/rand/v2"
	"sync/atomic"
	"unsafe"

	"github.com/globalfs/globalfs/pkg/fabric"
)

// region is registered memory in a protection domain of its own: a queue pair for one region cannot access
// another region, even if its initiator knows the key of that region.
type region struct {
	id     fabric.RegionID
	size   int
	memory *memory
	rights map[fabric.NodeID]fabric.Rights
	served map[fabric.NodeID]*served
}

// Size implements fabric.Memory.
func (r *region) Size() int { return r.size }

// Load implements fabric.Memory. It reads each whole word by one atomic load, because the network interface
// may write the word at the same time.
func (r *region) Load(at int, into []byte) {
	from := r.memory.bytes[at : at+len(into)]
	for len(from) > 0 {
		if whole := at%8 == 0 && len(from) >= 8; whole {
			v := (*atomic.Uint64)(unsafe.Pointer(&from[0])).Load()
			binary.NativeEndian.PutUint64(into, v)
			from, into, at = from[8:], into[8:], at+8
			continue
		}
		into[0] = from[0]
		from, into, at = from[1:], into[1:], at+1
	}
}

// Store implements fabric.Memory.
func (r *region) Store(at int, data []byte) {
	to := r.memory.bytes[at : at+len(data)]
	for len(to) > 0 {
		if whole := at%8 == 0 && len(to) >= 8; whole {
			(*atomic.Uint64)(unsafe.Pointer(&to[0])).Store(binary.NativeEndian.Uint64(data))
			to, data, at = to[8:], data[8:], at+8
			continue
		}
		to[0] = data[0]
		to, data, at = to[1:], data[1:], at+1
	}
}

// Notes are messages that follow writes with Notify. A buffer is posted again after its note was read.
const (
	noteSize  = 8 + 8 + 4
	noteSlots = 64
	maxLanded = 1 << 16
)

// served is the target's end of a queue pair.
type served struct {
	id        uint32
	peer      fabric.NodeID
	region    *region
	pair      *pair
	notes     *memory
	connected bool
	own, to   address       // of this end and of the peer's end, if connected
	rights    fabric.Rights // that the access flags permit, if connected
}

// disconnect resets the queue pair: no operation that is under way is executed afterwards.
func (s *served) disconnect() error {
	if !s.connected {
		return nil
	}
	if err := s.pair.reset(); err != nil {
		return err
	}
	s.connected = false
	return nil
}

func (s *served) close() {
	s.pair.close()
	s.notes.close()
	s.notes.unmap()
}

// answer executes a request: it connects the target's end of a queue pair.
func (e *endpoint) answer(in *incoming, r request) (reply, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.incoming[in.peer] != in {
		return reply{}, errEnded
	}
	a := reply{incarnation: e.incarnation, status: absent}
	region := e.regions[r.region]
	if region == nil {
		return a, nil
	}
	s, err := e.serving(region, in.peer)
	if err != nil {
		a.status = unable
		return a, nil
	}
	e.drain() // before the reset, which drops notes
	a.to = s.pair.address(rand.Uint32N(1 << 24))
	if err := s.disconnect(); err != nil {
		return reply{}, err
	}
	if s.connect(&a.to, &r.from) != nil {
		a.status = unable
		return a, s.disconnect()
	}
	a.status, a.key, a.base, a.size = opened, region.memory.key(), uint64(region.memory.at(0)), uint64(region.size)
	return a, nil
}

// connect takes a queue pair that is not connected through all states until it is connected to peer. After an
// error the caller must disconnect it.
func (s *served) connect(own, peer *address) error {
	s.connected, s.own, s.to, s.rights = true, *own, *peer, s.region.rights[s.peer]
	if err := s.pair.init(flagsOf(s.rights)); err != nil {
		return err
	}
	for i := range noteSlots {
		if err := s.post(i); err != nil {
			return err
		}
	}
	return s.pair.ready(own, peer)
}

// post posts the buffer for a note.
func (s *served) post(slot int) error {
	return s.pair.receive(ofTarget|uint64(s.id)<<32|uint64(slot), slot*noteSize, noteSize)
}

// serving returns the target's end of a peer's queue pair. It creates one if there is none.
func (e *endpoint) serving(r *region, peer fabric.NodeID) (*served, error) {
	if s := r.served[peer]; s != nil {
		return s, nil
	}
	notes, err := e.device.register(noteSlots*noteSize, false, r.memory)
	if err != nil {
		return nil, err
	}
	p, err := e.device.newPair(notes, 1, noteSlots)
	if err != nil {
		notes.close()
		notes.unmap()
		return nil, err
	}
	e.lastID++
	s := &served{id: e.lastID, peer: peer, region: r, pair: p, notes: notes}
	r.served[peer], e.targets[s.id] = s, s
	return s, nil
}

// noted handles a note. The peer has chosen the content of the note, so noted copies it before the checks.
func (s *served) noted(d *done, e *endpoint) {
	slot := int(uint32(d.id))
	if d.status != succeeded || slot >= noteSlots {
		return // the queue pair was reset, or is in error
	}
	var b [noteSize]byte
	copy(b[:], s.notes.bytes[slot*noteSize:])
	at, length := binary.LittleEndian.Uint64(b[:]), binary.LittleEndian.Uint64(b[8:])
	if size := uint64(s.region.size); d.length == noteSize && at <= size && length <= size-at {
		e.events.Landed = append(e.events.Landed, fabric.Landed{
			From: s.peer, Region: s.region.id, At: int(at), Length: int(length), Note: binary.LittleEndian.Uint32(b[16:]),
		})
		e.signal()
	}
	if len(e.events.Landed) > maxLanded {
		_ = s.disconnect() // the peer floods this node with notes
	}
	if s.connected {
		_ = s.post(slot) // fails only if the queue pair is in the error state; the peer must reset it then
	}
}
