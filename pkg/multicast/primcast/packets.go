package primcast

import (
	"github.com/globalfs/globalfs/internal/varint"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// anyPacket is a packet of one of the kinds. Each kind is a type with its fields only.
type anyPacket interface {
	append(b []byte) []byte // with the kind
	read(r *varint.Reader)  // without it
}

// frameReader decodes frames. Packets of the frequent kinds are reused for the next frame.
type frameReader struct {
	frame   varint.Reader // the rest of the present frame
	packets []anyPacket   // of it, in its order
	starts  []startPacket
	entries []entryPacket
	acks    []ackPacket
	haves   []havePacket
	covered []coveredPacket
}

// decode reads a frame, and returns an error if any part of it is malformed. Payloads alias b.
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

// reset ends the life of all packets.
func (f *frameReader) reset() {
	clear(f.packets)
	clear(f.starts) // they hold payloads
	f.packets, f.starts, f.entries, f.acks = f.packets[:0], f.starts[:0], f.entries[:0], f.acks[:0]
	f.haves, f.covered, f.frame = f.haves[:0], f.covered[:0], varint.Reader{}
}

// make returns an empty packet; nil: there is no such kind.
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

// add returns one more element. If the slice has to grow, earlier elements stay valid in the old one.
func add[T any](all *[]T) *T {
	var zero T
	*all = append(*all, zero)
	return &(*all)[len(*all)-1]
}

// newRare makes a packet of a kind that is not frequent.
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

// startPacket is ⟨START, m⟩; prev is the number of the sender's message before m to the receiver's group.
type startPacket struct {
	message multicast.Message
	prev    uint64
}

func (p *startPacket) append(b []byte) []byte {
	return varint.AppendUint(appendMessage(append(b, byte(kindStart)), &p.message), p.prev)
}

func (p *startPacket) read(r *varint.Reader) { p.message, p.prev = readMessage(r), r.Uint(maxNumber) }

// entryPacket is an entry of the T of h that concerns the receiver; prev is the index of the one before.
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

// upToPacket ends the answer to fetchLogPacket: no entry between prev and index concerns the receiver.
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

// ackPacket is ⟨ACK, …, q⟩ for all of T; last is the last entry of T that concerns the receiver. It
// carries the clock (ts), and the front if the receiver may wait for that.
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

// bumpPacket is ⟨BUMP, E, ts, q⟩ of a process that follows no primary; last is the end of the T of E that
// it knows.
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

// havePacket reports to the sender of m that q needs no START(m).
type havePacket struct{ id multicast.MessageID }

func (p *havePacket) append(b []byte) []byte { return appendID(append(b, byte(kindHave)), p.id) }

func (p *havePacket) read(r *varint.Reader) { p.id = readID(r) }

// fetchPacket requests START(m): q knows m by its timestamps only.
type fetchPacket struct{ id multicast.MessageID }

func (p *fetchPacket) append(b []byte) []byte { return appendID(append(b, byte(kindFetch)), p.id) }

func (p *fetchPacket) read(r *varint.Reader) { p.id = readID(r) }

// fetchLogPacket requests the entries of T after known, if the receiver is in the epoch, else after decided.
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

// coveredPacket reports that the state machine of q is durable up to a position of a class.
type coveredPacket struct{ multicast.ClassPosition }

func (p *coveredPacket) append(b []byte) []byte {
	return appendClassPosition(append(b, byte(kindCovered)), p.ClassPosition)
}

func (p *coveredPacket) read(r *varint.Reader) { p.ClassPosition = readClassPosition(r) }

// behindPacket reports that q may have forgotten messages that the receiver needs, up to a position of a
// class.
type behindPacket struct{ multicast.ClassPosition }

func (p *behindPacket) append(b []byte) []byte {
	return appendClassPosition(append(b, byte(kindBehind)), p.ClassPosition)
}

func (p *behindPacket) read(r *varint.Reader) { p.ClassPosition = readClassPosition(r) }

// newEpochPacket is ⟨NEW-EPOCH, E⟩, and the roster that q knows.
type newEpochPacket struct {
	epoch  Epoch
	roster roster
}

func (p *newEpochPacket) append(b []byte) []byte {
	return appendRoster(appendEpoch(append(b, byte(kindNewEpoch)), p.epoch), p.roster)
}

func (p *newEpochPacket) read(r *varint.Reader) { p.epoch, p.roster = readEpoch(r), readRoster(r) }

// promisePacket is ⟨PROMISE, E, p, …⟩ (promise).
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

// newStatePacket is ⟨NEW-STATE, E, T', ts⟩: T' is the T of the receiver up to from, and then entries up
// to length, which follow. Current is E_cur of the answered PROMISE; the roster is that of E.
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

// silentPacket reports that q receives nothing of the primary of the epoch to which it has promised, or that
// it is amnesiac.
type silentPacket struct {
	epoch    Epoch
	amnesiac bool
}

func (p *silentPacket) append(b []byte) []byte {
	return appendBool(appendEpoch(append(b, byte(kindSilent)), p.epoch), p.amnesiac)
}

func (p *silentPacket) read(r *varint.Reader) { p.epoch, p.amnesiac = readEpoch(r), r.Uint(1) == 1 }

// pingPacket reports that q waits for the primary.
type pingPacket struct{}

func (p *pingPacket) append(b []byte) []byte { return append(b, byte(kindPing)) }

func (p *pingPacket) read(*varint.Reader) {}

// rosterPacket is the roster of a group, and whether a quorum of it knows it.
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

// replacePacket requests a replacement from the primary.
type replacePacket struct{ multicast.Replacement }

func (p *replacePacket) append(b []byte) []byte {
	return varint.AppendUint(varint.AppendUint(append(b, byte(kindReplace)), p.Old), p.New)
}

func (p *replacePacket) read(r *varint.Reader) {
	p.Old, p.New = multicast.ProcessID(r.Uint32()), multicast.ProcessID(r.Uint32())
}
