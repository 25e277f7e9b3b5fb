package primcast

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/varint"
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

// startOf is ⟨START, m⟩.
func startOf(m *multicast.Message, prev uint64) packet {
	return packet{kind: kindStart, message: *m, prev: prev}
}

// entryOf is ⟨E, m, ts⟩ at an index of T. All entries before it concern the receiver too.
func entryOf(e Epoch, index uint64, ts multicast.Timestamp, m *multicast.Message) packet {
	return packet{kind: kindEntry, epoch: e, prev: index - 1, index: index, ts: ts, message: multicast.Message{ID: m.ID}}
}

// ackOf is ⟨ACK, …⟩ for all of T up to a length, with the clock of who says it.
func ackOf(e Epoch, length uint64, clock multicast.Timestamp) packet {
	return packet{kind: kindAck, epoch: e, length: length, last: length, ts: clock}
}

// frontOf is an ACK of a primary that says what it has not delivered.
func frontOf(e Epoch, length uint64, clock multicast.Timestamp, front multicast.Position) packet {
	p := ackOf(e, length, clock)
	p.hasFront, p.frontTS, p.position = true, p.ts, front
	return p
}

func bumpOf(e Epoch, ts multicast.Timestamp) packet { return packet{kind: kindBump, epoch: e, ts: ts} }

// rosterOf is the roster of g as it was born, last known of an epoch.
func rosterOf(latest Epoch) roster { return roster{latest: latest, ids: groupG.Members} }

func newEpochOf(e Epoch) packet {
	return packet{kind: kindNewEpoch, epoch: e, roster: rosterOf(epochG)}
}

func acceptOf(e Epoch) packet { return packet{kind: kindAccept, epoch: e} }

// promiseOf is ⟨PROMISE, E, p, clock, E_cur, T⟩ of a process of g.
func promiseOf(e, current Epoch, length uint64, clock multicast.Timestamp) packet {
	return packet{kind: kindPromise, epoch: e, promise: &promise{current: current, length: length, clock: clock, roster: rosterOf(current)}}
}

// newStateOf is ⟨NEW-STATE, E, T', ts⟩ for g: T' is the receiver's T up to from, then what follows up to length.
func newStateOf(e Epoch, from, length uint64, ts multicast.Timestamp) packet {
	return packet{kind: kindNewState, epoch: e, index: from, length: length, ts: ts, roster: rosterOf(e)}
}

func encode(packets ...packet) (b []byte) {
	for i := range packets {
		b = appendPacket(b, &packets[i])
	}
	return b
}

func appendPacket(b []byte, p *packet) []byte {
	switch p.kind {
	case kindStart:
		return appendStart(b, &p.message, p.prev)
	case kindEntry:
		return appendEntry(b, p.epoch, p.prev, &message{Message: p.message, index: p.index, ts: p.ts})
	case kindAck:
		b = appendEpoch(append(b, byte(kindAck)), p.epoch)
		b = varint.AppendUint(varint.AppendUint(varint.AppendUint(b, p.length), p.length-p.last), p.ts)
		if !p.hasFront {
			return append(b, 0)
		}
		return appendPosition(varint.AppendUint(append(b, 1), p.frontTS), p.position)
	case kindBump:
		return appendBump(b, p.epoch, p.ts, p.last)
	case kindHave:
		return appendHave(b, p.message.ID)
	case kindFetch:
		return appendFetch(b, p.message.ID)
	case kindUpTo:
		return appendUpTo(b, p.epoch, p.prev, p.index)
	case kindFetchLog:
		return appendFetchLog(b, p.epoch, p.index, p.length)
	case kindCovered:
		return appendCovered(b, multicast.ClassPosition{Class: p.class, Position: p.position})
	case kindPromise:
		return appendPromise(b, p.epoch, p.promise)
	case kindNewState:
		b = varint.AppendUint(appendEpochPacket(b, kindNewState, p.epoch), p.ts)
		b = varint.AppendUint(varint.AppendUint(b, p.index), p.length)
		return appendRoster(b, p.roster)
	case kindRoster:
		return appendBool(appendRoster(varint.AppendUint(append(b, byte(kindRoster)), p.group), p.roster), p.known)
	case kindNewEpoch:
		return appendNewEpoch(b, p.epoch, p.roster)
	case kindReplace:
		return appendReplace(b, p.replacement)
	case kindBehind:
		return appendBehind(b, multicast.ClassPosition{Class: p.class, Position: p.position})
	case kindPing:
		return append(b, byte(kindPing))
	}
	return appendEpochPacket(b, p.kind, p.epoch)
}

// proc is a process that a test steps by hand.
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

// hear steps p with one frame; without packets it is the start of a link.
func (p *proc) hear(from multicast.ProcessID, packets ...packet) *multicast.Output {
	return p.step(multicast.Input{Frames: []multicast.Frame{{Peer: from, Data: encode(packets...)}}})
}

// progress is that of a state machine of p that has applied some deliveries.
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

// loopback steps p with what it said to itself, as drivers do once the records are durable.
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

// said is what out says to a process, of one kind.
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

// said is the only packet of a kind that out says to a process.
func (p *proc) said(out *multicast.Output, to multicast.ProcessID, k kind) packet {
	found := said(p.tb, out, to, k)
	require.Len(p.tb, found, 1)
	return found[0]
}

// delivered gives the sequence numbers of what out delivers.
func delivered(out *multicast.Output) (seqs []uint64) {
	for _, d := range out.Deliveries {
		seqs = append(seqs, d.ID.Seq)
	}
	return seqs
}
