package primcast

import (
	"github.com/globalfs/globalfs/internal/varint"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// anyPacket is a packet of one kind. Each kind is a type with only its own fields.
type anyPacket interface {
	append(b []byte) []byte // appends kind and fields
	read(r *varint.Reader)  // reads the fields
}

// frameReader decodes frames. It reuses the packets of frequent kinds for the next frame.
type frameReader struct {
	frame   varint.Reader // the rest of the present frame
	packets []anyPacket   // the packets of the present frame, in order
	starts  []startPacket
	entries []entryPacket
	acks    []ackPacket
	haves   []havePacket
	covered []coveredPacket
}

// decode decodes a frame. If any part is malformed, it returns an error. Payloads alias b. The packets are
// valid until reset.
func (f *frameReader) decode(b []byte) error {
	f.reset()
	f.frame = *varint.NewReader(b)
	for f.frame.Len() > 0 {
		f.next()
	}
	return f.frame.Done()
}

// next reads one packet.
func (f *frameReader) next() {
	if p := f.make(kind(f.frame.Uint8())); p != nil {
		p.read(&f.frame)
		f.packets = append(f.packets, p)
	} else {
		f.frame.Fail()
	}
}

// reset ends the validity of all packets.
func (f *frameReader) reset() {
	clear(f.packets)
	clear(f.starts) // they hold payloads
	f.packets, f.starts, f.entries, f.acks = f.packets[:0], f.starts[:0], f.entries[:0], f.acks[:0]
	f.haves, f.covered, f.frame = f.haves[:0], f.covered[:0], varint.Reader{}
}

// make returns an empty packet of a kind; nil: the kind is unknown.
func (f *frameReader) make(k kind) anyPacket {
	switch k {
	case kindStart:
		return add(&f.starts)
	case kindEntry:
		return add(&f.entries)
	case kindAck:
		return add(&f.acks)
	case kindHave:
		return add(&f.haves)
	case kindCovered:
		return add(&f.covered)
	}
	return newRare(k)
}

// add appends an element and returns it. If the slice is moved, pointers to earlier elements stay valid.
func add[T any](all *[]T) *T {
	var zero T
	*all = append(*all, zero)
	return &(*all)[len(*all)-1]
}

// newRare returns a new packet of a kind that is not frequent.
func newRare(k kind) anyPacket {
	switch k {
	case kindUpTo:
		return &upToPacket{}
	case kindBump:
		return &bumpPacket{}
	case kindFetch:
		return &fetchPacket{}
	case kindFetchLog:
		return &fetchLogPacket{}
	case kindNewEpoch:
		return &newEpochPacket{}
	case kindPromise:
		return &promisePacket{}
	case kindNewState:
		return &newStatePacket{}
	case kindAccept:
		return &acceptPacket{}
	case kindPing:
		return &pingPacket{}
	case kindRoster:
		return &rosterPacket{}
	case kindReplace:
		return &replacePacket{}
	case kindBehind:
		return &behindPacket{}
	case kindSilent:
		return &silentPacket{}
	}
	return nil
}

// startPacket is ⟨START, m⟩. prev is the number that the sender used before m for the receiver's group.
type startPacket struct {
	message multicast.Message
	prev    uint64
}

func (p *startPacket) append(b []byte) []byte {
	return varint.AppendUint(appendMessage(append(b, byte(kindStart)), &p.message), p.prev)
}

func (p *startPacket) read(r *varint.Reader) { p.message, p.prev = readMessage(r), r.Uint(maxNumber) }

// entryPacket is an entry of the T of h that concerns the receiver. prev is the index of the entry before it
// that concerns the receiver.
type entryPacket struct {
	epoch Epoch
	index uint64
	prev  uint64
	ts    multicast.Timestamp
	id    multicast.MessageID
}

func (p *entryPacket) append(b []byte) []byte {
	b = appendEpoch(append(b, byte(kindEntry)), p.epoch)
	b = varint.AppendUint(varint.AppendUint(b, p.index), p.index-p.prev)
	return appendID(varint.AppendUint(b, p.ts), p.id)
}

func (p *entryPacket) read(r *varint.Reader) {
	p.epoch, p.index = readEpoch(r), r.Uint(maxNumber)
	p.prev, p.ts, p.id = p.index-r.Uint(p.index), readTimestamp(r), readID(r)
	if p.ts == 0 || p.prev >= p.index {
		r.Fail()
	}
}

// upToPacket ends the answer to a fetchLogPacket. No entry between prev and index concerns the receiver.
type upToPacket struct {
	epoch Epoch
	index uint64
	prev  uint64
}

func (p *upToPacket) append(b []byte) []byte {
	b = appendEpoch(append(b, byte(kindUpTo)), p.epoch)
	return varint.AppendUint(varint.AppendUint(b, p.index), p.index-p.prev)
}

func (p *upToPacket) read(r *varint.Reader) {
	p.epoch, p.index = readEpoch(r), r.Uint(maxNumber)
	p.prev = p.index - r.Uint(p.index)
}

// ackPacket is ⟨ACK, …, q⟩ for all of T, up to length. last is the index of the last entry that concerns the
// receiver. It has the clock (ts), and the front if the receiver may wait for it.
type ackPacket struct {
	epoch    Epoch
	length   uint64
	last     uint64
	ts       multicast.Timestamp
	hasFront bool
	front    front
}

func (p *ackPacket) append(b []byte) []byte {
	b = appendEpoch(append(b, byte(kindAck)), p.epoch)
	b = varint.AppendUint(varint.AppendUint(b, p.length), p.length-p.last)
	b = appendBool(varint.AppendUint(b, p.ts), p.hasFront)
	if p.hasFront {
		b = appendPosition(varint.AppendUint(b, p.front.ts), p.front.position)
	}
	return b
}

func (p *ackPacket) read(r *varint.Reader) {
	p.epoch, p.length = readEpoch(r), r.Uint(maxNumber)
	p.last, p.ts = p.length-r.Uint(p.length), readTimestamp(r)
	if p.hasFront = r.Uint(1) == 1; p.hasFront {
		p.front = front{ts: readTimestamp(r), position: readPosition(r)}
	}
}

// bumpPacket is ⟨BUMP, E, ts, q⟩ of a process that follows no primary. last is the length of the T of E as
// far as the process knows it.
type bumpPacket struct {
	epoch Epoch
	ts    multicast.Timestamp
	last  uint64
}

func (p *bumpPacket) append(b []byte) []byte {
	b = appendEpoch(append(b, byte(kindBump)), p.epoch)
	return varint.AppendUint(varint.AppendUint(b, p.ts), p.last)
}

func (p *bumpPacket) read(r *varint.Reader) {
	p.epoch, p.ts, p.last = readEpoch(r), readTimestamp(r), r.Uint(maxNumber)
}

// havePacket informs the sender of m that q has START(m).
type havePacket struct{ id multicast.MessageID }

func (p *havePacket) append(b []byte) []byte { return appendID(append(b, byte(kindHave)), p.id) }

func (p *havePacket) read(r *varint.Reader) { p.id = readID(r) }

// fetchPacket requests START(m). q knows m only from entries.
type fetchPacket struct{ id multicast.MessageID }

func (p *fetchPacket) append(b []byte) []byte { return appendID(append(b, byte(kindFetch)), p.id) }

func (p *fetchPacket) read(r *varint.Reader) { p.id = readID(r) }

// fetchLogPacket requests entries of T: those after known if the receiver is in the epoch, else those after
// decided.
type fetchLogPacket struct {
	epoch   Epoch
	known   uint64
	decided uint64
}

func (p *fetchLogPacket) append(b []byte) []byte {
	b = appendEpoch(append(b, byte(kindFetchLog)), p.epoch)
	return varint.AppendUint(varint.AppendUint(b, p.known), p.decided)
}

func (p *fetchLogPacket) read(r *varint.Reader) {
	p.epoch, p.known, p.decided = readEpoch(r), r.Uint(maxNumber), r.Uint(maxNumber)
}

// coveredPacket informs the receiver that the state machine of q is durable up to a position of a class.
type coveredPacket struct{ multicast.ClassPosition }

func (p *coveredPacket) append(b []byte) []byte {
	return appendClassPosition(append(b, byte(kindCovered)), p.ClassPosition)
}

func (p *coveredPacket) read(r *varint.Reader) { p.ClassPosition = readClassPosition(r) }

// behindPacket informs the receiver that q may have forgotten messages of a class, up to a position, that the
// receiver needs.
type behindPacket struct{ multicast.ClassPosition }

func (p *behindPacket) append(b []byte) []byte {
	return appendClassPosition(append(b, byte(kindBehind)), p.ClassPosition)
}

func (p *behindPacket) read(r *varint.Reader) { p.ClassPosition = readClassPosition(r) }

// newEpochPacket is ⟨NEW-EPOCH, E⟩, with the roster that q knows.
type newEpochPacket struct {
	epoch  Epoch
	roster roster
}

func (p *newEpochPacket) append(b []byte) []byte {
	return appendRoster(appendEpoch(append(b, byte(kindNewEpoch)), p.epoch), p.roster)
}

func (p *newEpochPacket) read(r *varint.Reader) { p.epoch, p.roster = readEpoch(r), readRoster(r) }

// promisePacket is ⟨PROMISE, E, p, …⟩; see promise.
type promisePacket struct {
	epoch   Epoch
	promise promise
}

func (p *promisePacket) append(b []byte) []byte {
	b = appendEpoch(appendEpoch(append(b, byte(kindPromise)), p.epoch), p.promise.current)
	b = varint.AppendUint(varint.AppendUint(b, p.promise.clock), p.promise.length)
	return appendBool(appendRoster(varint.AppendUint(b, p.promise.decided), p.promise.roster), p.promise.amnesiac)
}

func (p *promisePacket) read(r *varint.Reader) {
	p.epoch = readEpoch(r)
	p.promise = promise{current: readEpoch(r), clock: readTimestamp(r), length: r.Uint(maxNumber)}
	p.promise.decided = r.Uint(p.promise.length)
	p.promise.roster, p.promise.amnesiac = readRoster(r), r.Uint(1) == 1
}

// newStatePacket is ⟨NEW-STATE, E, T', ts⟩. T' consists of the receiver's T up to from, and of the entries up
// to length, which follow. current is the E_cur of the PROMISE that it answers. The roster is that of E.
type newStatePacket struct {
	epoch   Epoch
	current Epoch
	ts      multicast.Timestamp
	from    uint64
	length  uint64
	roster  roster
}

func (p *newStatePacket) append(b []byte) []byte {
	b = appendEpoch(appendEpoch(append(b, byte(kindNewState)), p.epoch), p.current)
	b = varint.AppendUint(b, p.ts)
	return appendRoster(varint.AppendUint(varint.AppendUint(b, p.from), p.length), p.roster)
}

func (p *newStatePacket) read(r *varint.Reader) {
	p.epoch, p.current, p.ts, p.from = readEpoch(r), readEpoch(r), readTimestamp(r), r.Uint(maxNumber)
	if p.length = r.Uint(maxNumber); p.length < p.from {
		r.Fail()
	}
	p.roster = readRoster(r)
}

// acceptPacket is ⟨ACCEPT, E, p⟩.
type acceptPacket struct{ epoch Epoch }

func (p *acceptPacket) append(b []byte) []byte {
	return appendEpoch(append(b, byte(kindAccept)), p.epoch)
}

func (p *acceptPacket) read(r *varint.Reader) { p.epoch = readEpoch(r) }

// silentPacket informs the group that q receives nothing from the primary of the epoch which it has promised,
// or that q is amnesiac.
type silentPacket struct {
	epoch    Epoch
	amnesiac bool
}

func (p *silentPacket) append(b []byte) []byte {
	return appendBool(appendEpoch(append(b, byte(kindSilent)), p.epoch), p.amnesiac)
}

func (p *silentPacket) read(r *varint.Reader) { p.epoch, p.amnesiac = readEpoch(r), r.Uint(1) == 1 }

// pingPacket asks the group for a sign of life of the primary.
type pingPacket struct{}

func (p *pingPacket) append(b []byte) []byte { return append(b, byte(kindPing)) }

func (p *pingPacket) read(*varint.Reader) {}

// rosterPacket is the roster of a group. known means that a quorum of its members knows it.
type rosterPacket struct {
	group  multicast.GroupID
	roster roster
	known  bool
}

func (p *rosterPacket) append(b []byte) []byte {
	return appendBool(appendRoster(varint.AppendUint(append(b, byte(kindRoster)), p.group), p.roster), p.known)
}

func (p *rosterPacket) read(r *varint.Reader) {
	p.group = multicast.GroupID(r.Uint16())
	p.roster, p.known = readRoster(r), r.Uint(1) == 1
}

// replacePacket asks the primary for a change of the members.
type replacePacket struct{ multicast.Replacement }

func (p *replacePacket) append(b []byte) []byte {
	return varint.AppendUint(varint.AppendUint(append(b, byte(kindReplace)), p.Old), p.New)
}

func (p *replacePacket) read(r *varint.Reader) {
	p.Old, p.New = multicast.ProcessID(r.Uint32()), multicast.ProcessID(r.Uint32())
}
