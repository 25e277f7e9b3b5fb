package tram

import (
	"encoding/binary"
	"hash/crc32"
	"slices"

	"github.com/globalfs/globalfs/pkg/fabric"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// A slot is a word and a body: the length (4 bytes), the number of the slot (8), and the content. The lower
// half of the word is a checksum of the body, so that a slot that has landed in part is not valid (the
// paper's canary, without an order of the bytes). In a log the upper half is the timestamp of the leader.
// The body depends only on the place and the value. To write the same value with another timestamp changes
// only the word, which fabrics write atomically (fabric M2). So a leader that stops while it writes an entry
// again does not damage an entry that a quorum holds.
const (
	wordSize   = 8
	bodyHeader = 4 + 8
	headerSize = 64 // of a log: the words of writeHeader
	startWord  = 16
	noteHeader = 96
	noteSize   = noteHeader + 4*maxMembers
	flagLost   = 1
	flagSealed = 2
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

var le = binary.LittleEndian

// place returns the offset of slot n in its ring, in bytes.
func (cfg *Config) place(n uint64) int { return int(n%uint64(cfg.Slots)) * cfg.SlotSize }

// seal encodes a slot with a number and a content, without a timestamp.
func seal(n uint64, content []byte) []byte {
	b := make([]byte, wordSize+bodyHeader, wordSize+bodyHeader+len(content))
	le.PutUint32(b[8:], uint32(len(content)))
	le.PutUint64(b[12:], n)
	b = append(b, content...)
	le.PutUint32(b, crc32.Checksum(b[wordSize:], castagnoli))
	return b
}

// stamped returns a copy of a sealed slot with a timestamp.
func stamped(slot []byte, ts uint32) []byte {
	b := slices.Clone(slot)
	le.PutUint32(b[4:], ts)
	return b
}

// unseal returns the content and the timestamp of slot n. ok is false if the slot is not completely written.
func unseal(slot []byte, n uint64) (content []byte, ts uint32, ok bool) {
	if len(slot) < wordSize+bodyHeader || le.Uint64(slot[12:]) != n {
		return nil, 0, false
	}
	length := int(le.Uint32(slot[8:]))
	if length > len(slot)-wordSize-bodyHeader {
		return nil, 0, false
	}
	end := wordSize + bodyHeader + length
	if crc32.Checksum(slot[wordSize:end], castagnoli) != le.Uint32(slot) {
		return nil, 0, false
	}
	return slot[wordSize+bodyHeader : end], le.Uint32(slot[4:]), true
}

// entry is an entry of the log: tuple ⟨ts, src, childPos, m⟩ of section 5.1, without ts.
type entry struct {
	from     multicast.ProcessID // the client; 0: the parent
	index    uint64              // in the input of from
	children []childPosition     // by group
	message  multicast.Message
	slot     []byte // encoded form
}

// childPosition is the index of the entry in the input of a child.
type childPosition struct {
	group multicast.GroupID
	index uint64
}

// appendMessage encodes a message.
func appendMessage(b []byte, m *multicast.Message) []byte {
	b = le.AppendUint32(b, uint32(m.ID.Sender))
	b = le.AppendUint64(b, m.ID.Seq)
	count := uint16(len(m.Dest))
	if m.Order == Barrier {
		count |= barrierFlag
	}
	b = le.AppendUint16(b, count)
	for _, g := range m.Dest {
		b = le.AppendUint16(b, uint16(g))
	}
	return append(b, m.Payload...)
}

// messageOverhead returns the number of bytes that appendMessage adds to a payload.
func messageOverhead(dest int) int { return 4 + 8 + 2 + 2*dest }

// entryOverhead returns the number of bytes that an entry adds to its message.
func entryOverhead(children int) int { return 4 + 8 + 2 + 10*children }

// reader decodes integers and bytes; the first error sticks.
type reader struct {
	b  []byte
	ok bool
}

func (r *reader) take(n int) []byte {
	if !r.ok || len(r.b) < n {
		r.ok = false
		return make([]byte, n)
	}
	head := r.b[:n]
	r.b = r.b[n:]
	return head
}

// bytes decodes bytes with their length in front.
func (r *reader) bytes() []byte {
	n := int(r.uint32())
	if n > len(r.b) {
		r.ok = false
		return nil
	}
	return slices.Clone(r.take(n))
}

func (r *reader) uint16() uint16 { return le.Uint16(r.take(2)) }
func (r *reader) uint32() uint32 { return le.Uint32(r.take(4)) }
func (r *reader) uint64() uint64 { return le.Uint64(r.take(8)) }

// message decodes the rest as a message.
func (r *reader) message() (m multicast.Message) {
	m.ID.Sender, m.ID.Seq = multicast.ProcessID(r.uint32()), r.uint64()
	count := int(r.uint16())
	barrier := count&barrierFlag != 0
	count &^= barrierFlag
	if 2*count > len(r.b) {
		r.ok = false
		return m
	}
	for range count {
		m.Dest = append(m.Dest, multicast.GroupID(r.uint16()))
	}
	m.Payload = slices.Clone(r.b)
	if r.ok = r.ok && m.Validate() == nil; barrier {
		m.Order = Barrier
	}
	return m
}

// decodeMessage decodes the message of an input.
func decodeMessage(content []byte) (m multicast.Message, ok bool) {
	r := reader{b: content, ok: true}
	m = r.message()
	return m, r.ok
}

// encode sets the slot of an entry with number n.
func (e *entry) encode(n uint64) {
	b := le.AppendUint32(nil, uint32(e.from))
	b = le.AppendUint64(b, e.index)
	b = le.AppendUint16(b, uint16(len(e.children)))
	for _, c := range e.children {
		b = le.AppendUint16(b, uint16(c.group))
		b = le.AppendUint64(b, c.index)
	}
	e.slot = seal(n, appendMessage(b, &e.message))
}

// decodeEntry decodes the entry in slot n of a log.
func decodeEntry(slot []byte, n uint64) (e *entry, ts uint32, ok bool) {
	content, ts, ok := unseal(slot, n)
	if !ok {
		return nil, 0, false
	}
	r := reader{b: content, ok: true}
	e = &entry{from: multicast.ProcessID(r.uint32()), index: r.uint64()}
	count := int(r.uint16())
	if 10*count > len(r.b) {
		return nil, 0, false
	}
	for range count {
		e.children = append(e.children, childPosition{multicast.GroupID(r.uint16()), r.uint64()})
	}
	e.message = r.message()
	e.slot = slices.Clone(slot[:wordSize+bodyHeader+len(content)])
	le.PutUint32(e.slot[4:], 0)
	return e, ts, r.ok
}

// note is the state that one process writes for another one: the paper's propose and answer, and the credits.
// A note replaces the one before.
type note struct {
	life       uint32 // of the sender
	lost       bool   // the sender has lost its memory and has no vote yet (amnesia.go)
	sealed     bool   // the sender has applied a barrier: taken will not grow
	ask        uint32 // the sender wants to lead with this timestamp (propose)
	askFor     uint32 // the latest loss of the receiver that the sender knew when it chose ask
	promised   uint32 // the highest timestamp that the sender has granted (answer)
	promisedTo uint32 // the life of the process to which promised was granted
	applied    uint64 // the sender has applied its log up to here
	covered    uint64 // the sender needs its log up to here from no other process
	stored     uint64 // the sender holds its log up to here durably: decided entries, and others with timestamp promised
	taken      uint64 // number of messages of the receiver, as a client, that the sender's group has ordered
	fromUp     uint64 // number of messages of the receiver's group, the parent, that the sender's group has ordered
	// The sender waits until the receiver's group has ordered these entries: of the sender as a client, and
	// of the sender's group. 0: it does not wait. This makes the receiver report the order again, in case a
	// leader stopped before it had reported it.
	wait, waitUp uint64
	// losses are the losses of members of the sender's group that the sender knows (amnesia.go). Only notes
	// to the same group have them.
	losses [maxMembers]uint32
}

// encode omits losses if there are none.
func (n *note) encode() []byte {
	b := make([]byte, 4, noteSize)
	size := uint32(noteHeader)
	if n.losses != [maxMembers]uint32{} {
		size = noteSize
	}
	flags := uint32(0)
	if n.lost {
		flags |= flagLost
	}
	if n.sealed {
		flags |= flagSealed
	}
	for _, v := range []uint32{size, n.life, flags, n.ask, n.askFor, n.promised, n.promisedTo, 0} {
		b = le.AppendUint32(b, v)
	}
	b = append(b, 0, 0, 0, 0) // aligns the words to eight bytes
	for _, v := range []uint64{n.applied, n.covered, n.stored, n.taken, n.fromUp, n.wait, n.waitUp} {
		b = le.AppendUint64(b, v)
	}
	for i := 0; size == noteSize && i < maxMembers; i++ {
		b = le.AppendUint32(b, n.losses[i])
	}
	le.PutUint32(b, crc32.Checksum(b[4:], castagnoli))
	return b
}

// decodeNote decodes a note. A note that was never written has length 0 and is not valid.
func decodeNote(b []byte) (n note, ok bool) {
	size := le.Uint32(b[4:])
	if size != noteHeader && size != noteSize || crc32.Checksum(b[4:size], castagnoli) != le.Uint32(b) {
		return n, false
	}
	n = note{
		life: le.Uint32(b[8:]), lost: le.Uint32(b[12:])&flagLost != 0, sealed: le.Uint32(b[12:])&flagSealed != 0,
		ask: le.Uint32(b[16:]), askFor: le.Uint32(b[20:]),
		promised: le.Uint32(b[24:]), promisedTo: le.Uint32(b[28:]),
		applied: le.Uint64(b[40:]), covered: le.Uint64(b[48:]), stored: le.Uint64(b[56:]), taken: le.Uint64(b[64:]),
		fromUp: le.Uint64(b[72:]), wait: le.Uint64(b[80:]), waitUp: le.Uint64(b[88:]),
	}
	for i := 0; size == noteSize && i < maxMembers; i++ {
		n.losses[i] = le.Uint32(b[noteHeader+4*i:])
	}
	return n, true
}

// The regions of a process. A RegionID holds the kind of the region and the process that writes it.
const (
	logRegion fabric.RegionID = iota << 28
	clientRegion
	parentRegion
	noteRegion
)

func regionOf(kind fabric.RegionID, p multicast.ProcessID) fabric.RegionID {
	return kind | fabric.RegionID(p)
}
