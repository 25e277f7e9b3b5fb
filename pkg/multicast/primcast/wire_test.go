package primcast

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/pkg/multicast"
)

// Groups g = {1, 2, 3} and h = {4, 5, 6}, as in Figure 4.1.
var (
	groupG = multicast.Group{ID: 1, Members: []multicast.ProcessID{1, 2, 3}}
	groupH = multicast.Group{ID: 2, Members: []multicast.ProcessID{4, 5, 6}}
	epochG = Epoch{Number: 1, Leader: 1}
	epochH = Epoch{Number: 1, Leader: 4}
	both   = []multicast.GroupID{1, 2}
)

// msg is multicast by process 5.
func msg(seq uint64, dest ...multicast.GroupID) *multicast.Message {
	return &multicast.Message{ID: multicast.MessageID{Sender: 5, Seq: seq}, Dest: dest, Payload: []byte("content")}
}

// startOf returns ⟨START, m⟩.
func startOf(m *multicast.Message, prev uint64) packet {
	return packet{kind: kindStart, message: *m, prev: prev}
}

// entryOf returns ⟨E, m, ts⟩ at an index of T. All entries before it concern the receiver too.
func entryOf(e Epoch, index uint64, ts multicast.Timestamp, m *multicast.Message) packet {
	return packet{kind: kindEntry, epoch: e, prev: index - 1, index: index, ts: ts, message: multicast.Message{ID: m.ID}}
}

// ackOf returns ⟨ACK, …⟩ for all of T up to a length, with the sender's clock.
func ackOf(e Epoch, length uint64, clock multicast.Timestamp) packet {
	return packet{kind: kindAck, epoch: e, length: length, last: length, ts: clock}
}

// frontOf returns an ACK of a primary with its front.
func frontOf(e Epoch, length uint64, clock multicast.Timestamp, front multicast.Position) packet {
	p := ackOf(e, length, clock)
	p.hasFront, p.frontTS, p.position = true, p.ts, front
	return p
}

func bumpOf(e Epoch, ts multicast.Timestamp) packet { return packet{kind: kindBump, epoch: e, ts: ts} }

// rosterOf returns the original roster of g, last known of an epoch.
func rosterOf(latest Epoch) roster { return roster{latest: latest, ids: groupG.Members} }

func newEpochOf(e Epoch) packet {
	return packet{kind: kindNewEpoch, epoch: e, roster: rosterOf(epochG)}
}

func acceptOf(e Epoch) packet { return packet{kind: kindAccept, epoch: e} }

// promiseOf returns ⟨PROMISE, E, p, clock, E_cur, T⟩ of a process of g.
func promiseOf(e, current Epoch, length uint64, clock multicast.Timestamp) packet {
	return packet{kind: kindPromise, epoch: e, promise: &promise{current: current, length: length, clock: clock, roster: rosterOf(current)}}
}

// newStateOf returns ⟨NEW-STATE, E, T', ts⟩ for g: T' is the receiver's T up to from, then the entries up to
// length. It answers a PROMISE of a process in the first epoch.
func newStateOf(e Epoch, from, length uint64, ts multicast.Timestamp) packet {
	return packet{kind: kindNewState, epoch: e, current: epochG, index: from, length: length, ts: ts, roster: rosterOf(e)}
}

func encode(packets ...packet) (b []byte) {
	for i := range packets {
		b = appendPacket(b, &packets[i])
	}
	return b
}

// packet is the notation of tests for packets of all kinds, which use the fields that they have.
type packet struct {
	kind     kind
	hasFront bool
	amnesiac bool              // of kindSilent
	message  multicast.Message // kindStart; others: ID only
	prev     uint64
	epoch    Epoch
	current  Epoch // of kindNewState
	ts       multicast.Timestamp
	index    uint64
	length   uint64
	last     uint64
	frontTS  multicast.Timestamp
	class    multicast.Class
	position multicast.Position
	promise  *promise

	group       multicast.GroupID
	roster      roster
	known       bool
	replacement multicast.Replacement
}

// typed returns the packet in the type of the core.
func (p *packet) typed() anyPacket {
	at := multicast.ClassPosition{Class: p.class, Position: p.position}
	switch p.kind {
	case kindStart:
		return &startPacket{p.message, p.prev}
	case kindEntry:
		return &entryPacket{p.epoch, p.index, p.prev, p.ts, p.message.ID}
	case kindUpTo:
		return &upToPacket{p.epoch, p.index, p.prev}
	case kindAck:
		return &ackPacket{p.epoch, p.length, p.last, p.ts, p.hasFront, front{p.frontTS, p.position}}
	case kindBump:
		return &bumpPacket{p.epoch, p.ts, p.last}
	case kindHave:
		return &havePacket{p.message.ID}
	case kindFetch:
		return &fetchPacket{p.message.ID}
	case kindFetchLog:
		return &fetchLogPacket{p.epoch, p.index, p.length}
	case kindCovered:
		return &coveredPacket{at}
	case kindBehind:
		return &behindPacket{at}
	case kindNewEpoch:
		return &newEpochPacket{p.epoch, p.roster}
	case kindPromise:
		return &promisePacket{p.epoch, *p.promise}
	case kindNewState:
		return &newStatePacket{p.epoch, p.current, p.ts, p.index, p.length, p.roster}
	case kindAccept:
		return &acceptPacket{p.epoch}
	case kindSilent:
		return &silentPacket{p.epoch, p.amnesiac}
	case kindRoster:
		return &rosterPacket{p.group, p.roster, p.known}
	case kindReplace:
		return &replacePacket{p.replacement}
	}
	return &pingPacket{}
}

// flat is the inverse of typed.
func flat(p anyPacket) packet {
	head := kind(p.append(nil)[0])
	switch p := p.(type) {
	case *startPacket:
		return packet{kind: head, message: p.message, prev: p.prev}
	case *entryPacket:
		return packet{kind: head, epoch: p.epoch, index: p.index, prev: p.prev, ts: p.ts, message: multicast.Message{ID: p.id}}
	case *upToPacket:
		return packet{kind: head, epoch: p.epoch, index: p.index, prev: p.prev}
	case *ackPacket:
		return packet{kind: head, epoch: p.epoch, length: p.length, last: p.last, ts: p.ts,
			hasFront: p.hasFront, frontTS: p.front.ts, position: p.front.position}
	case *bumpPacket:
		return packet{kind: head, epoch: p.epoch, ts: p.ts, last: p.last}
	case *havePacket:
		return packet{kind: head, message: multicast.Message{ID: p.id}}
	case *fetchPacket:
		return packet{kind: head, message: multicast.Message{ID: p.id}}
	case *fetchLogPacket:
		return packet{kind: head, epoch: p.epoch, index: p.known, length: p.decided}
	case *coveredPacket:
		return packet{kind: head, class: p.Class, position: p.Position}
	case *behindPacket:
		return packet{kind: head, class: p.Class, position: p.Position}
	case *newEpochPacket:
		return packet{kind: head, epoch: p.epoch, roster: p.roster}
	case *promisePacket:
		return packet{kind: head, epoch: p.epoch, promise: &p.promise}
	case *newStatePacket:
		return packet{kind: head, epoch: p.epoch, current: p.current, ts: p.ts, index: p.from, length: p.length, roster: p.roster}
	case *acceptPacket:
		return packet{kind: head, epoch: p.epoch}
	case *silentPacket:
		return packet{kind: head, epoch: p.epoch, amnesiac: p.amnesiac}
	case *rosterPacket:
		return packet{kind: head, group: p.group, roster: p.roster, known: p.known}
	case *replacePacket:
		return packet{kind: head, replacement: p.Replacement}
	}
	return packet{kind: head}
}

func appendPacket(b []byte, p *packet) []byte { return p.typed().append(b) }

// decodeFrame appends the packets of a frame to into.
func decodeFrame(b []byte, into []packet) ([]packet, error) {
	var f frameReader
	err := f.decode(b)
	for _, p := range f.packets {
		into = append(into, flat(p))
	}
	return into, err
}

// proc is a process that a test steps manually.
type proc struct {
	*Core
	tb      testing.TB
	cfg     Config
	instant multicast.Instant
	records [][]byte // all so far
}

func newProc(t testing.TB, self multicast.ProcessID, change ...func(*Config)) *proc {
	cfg := Config{Self: self, Groups: []multicast.Group{groupG, groupH}}
	for _, f := range change {
		f(&cfg)
	}
	c, err := New(cfg)
	require.NoError(t, err)
	return &proc{Core: c, tb: t, cfg: cfg}
}

func (p *proc) step(in multicast.Input) *multicast.Output {
	in.Now = p.instant
	out := &multicast.Output{}
	p.Step(&in, out)
	p.audit()
	p.records = append(p.records, out.Records...)
	return out
}

// hear steps p with one frame. Without packets, the frame is the start of a link.
func (p *proc) hear(from multicast.ProcessID, packets ...packet) *multicast.Output {
	return p.step(multicast.Input{Frames: []multicast.Frame{{Peer: from, Data: encode(packets...)}}})
}

// progress returns the progress of a state machine of p that has applied some deliveries.
func (p *proc) progress(applied []multicast.Delivery) multicast.Progress {
	return progress(p.cfg.Classes, applied)
}

func progress(classes bool, applied []multicast.Delivery) (all multicast.Progress) {
	for i := range applied {
		d, name := &applied[i], multicast.Class("")
		if classes {
			name = multicast.ClassOf(d.Dest)
		}
		all.Advance(name, d.Position())
	}
	return all
}

// loopback steps p with its messages to itself, as drivers do once the records are durable.
func (p *proc) loopback(out *multicast.Output) *multicast.Output {
	in := multicast.Input{}
	for _, f := range out.Frames {
		if f.Peer == p.self.id {
			in.Frames = append(in.Frames, multicast.Frame{Peer: f.Peer, Data: f.Data})
		}
	}
	return p.step(in)
}

// cast steps p with messages to multicast.
func (p *proc) cast(messages ...*multicast.Message) *multicast.Output {
	in := multicast.Input{}
	for _, m := range messages {
		in.Proposed = append(in.Proposed, *m)
	}
	return p.step(in)
}

// after lets time pass.
func (p *proc) after(d time.Duration) *multicast.Output {
	p.instant.Mono += d
	return p.step(multicast.Input{})
}

// restart makes p again from its records.
func (p *proc) restart(delivered multicast.Progress) *proc {
	again := newProc(p.tb, p.cfg.Self, func(cfg *Config) {
		*cfg = p.cfg
		cfg.Delivered = delivered
	})
	for _, r := range p.records {
		require.NoError(p.tb, again.Replay(r))
	}
	again.records = p.records
	return again
}

// said returns the packets of one kind that out sends to a process.
func said(t testing.TB, out *multicast.Output, to multicast.ProcessID, k kind) (found []packet) {
	for _, f := range out.Frames {
		if f.Peer != to {
			continue
		}
		packets, err := decodeFrame(f.Data, nil)
		require.NoError(t, err)
		for _, p := range packets {
			if p.kind == k {
				found = append(found, p)
			}
		}
	}
	return found
}

// said returns the only packet of a kind that out sends to a process.
func (p *proc) said(out *multicast.Output, to multicast.ProcessID, k kind) packet {
	found := said(p.tb, out, to, k)
	require.Len(p.tb, found, 1)
	return found[0]
}

// delivered returns the sequence numbers of the deliveries of out.
func delivered(out *multicast.Output) (seqs []uint64) {
	for _, d := range out.Deliveries {
		seqs = append(seqs, d.ID.Seq)
	}
	return seqs
}
