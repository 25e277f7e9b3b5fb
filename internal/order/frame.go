package order

import (
	"fmt"

	"github.com/globalfs/globalfs/internal/varint"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// section distinguishes the parts of a frame, and the records of the log. The values are stable: they are on
// disk and on the wire.
type section byte

const (
	sectionOwn     section = 1 + iota // of the own order
	sectionBetween                    // of the order between partitions
	sectionBoth                       // only in records: a checkpoint of both orders
	sectionMessage                    // only in frames: a message between replicas
	sectionBackup                     // only in frames, the first section: the newest backup that the sender knows (backup.go)
)

// maxMessages bounds the bytes of messages between replicas in one frame. Messages beyond the bound are
// dropped: a message is a hint, and its sender sends it again.
const maxMessages = 8 << 20

// frames are the frames of a step.
type frames struct {
	data  map[multicast.ProcessID][]byte
	peers []multicast.ProcessID // the peers with data in this step, in the order of their first section
}

func newFrames() frames { return frames{data: map[multicast.ProcessID][]byte{}} }

func (f *frames) add(to multicast.ProcessID, s section, data []byte) {
	b := f.data[to]
	if b == nil {
		f.peers = append(f.peers, to)
		b = make([]byte, 0, len(data)+8)
	}
	f.data[to] = varint.AppendBytes(append(b, byte(s)), data)
}

// addAll adds the frames of a core.
func (f *frames) addAll(all []multicast.Frame, s section) {
	for _, frame := range all {
		f.add(frame.Peer, s, frame.Data)
	}
}

// flush moves the frames to out. Each of them carries the number of a backup, unless it is 0.
func (f *frames) flush(out []multicast.Frame, backup uint64) []multicast.Frame {
	for _, to := range f.peers {
		out = append(out, multicast.Frame{Peer: to, Data: carry(backup, f.data[to])})
	}
	f.peers = f.peers[:0]
	clear(f.data)
	return out
}

// Send adds a message between replicas to the frame for its receiver in this step. It is dropped if the frame
// has no room for it.
func (o *Orders) Send(to multicast.ProcessID, message []byte) {
	if to != o.self && len(o.frames.data[to])+len(message) <= maxMessages {
		o.frames.add(to, sectionMessage, message)
	}
}

// Begin starts a step. It gives both cores the time and their sections of the frames, and passes messages of
// other replicas to receive. If a frame is malformed, the sections before the first malformed one are used.
func (o *Orders) Begin(in *multicast.Input, receive func(from multicast.ProcessID, message []byte)) {
	o.ownIn.Reset()
	o.betweenIn.Reset()
	o.ownIn.Now, o.betweenIn.Now = in.Now, in.Now
	for _, f := range in.Frames {
		if len(f.Data) == 0 { // a new link, for both orders
			o.ownIn.Frames, o.betweenIn.Frames = append(o.ownIn.Frames, f), append(o.betweenIn.Frames, f)
			continue
		}
		if !o.split(f, receive) {
			o.malformed++
		}
	}
}

func (o *Orders) split(f multicast.Frame, receive func(from multicast.ProcessID, message []byte)) bool {
	r := varint.NewReader(f.Data)
	for r.Len() > 0 && r.Err() == nil {
		kind, data := section(r.Uint8()), r.Bytes()
		part := multicast.Frame{Peer: f.Peer, Data: data}
		switch {
		case r.Err() != nil || len(data) == 0:
			return false
		case kind == sectionOwn:
			o.ownIn.Frames = append(o.ownIn.Frames, part)
		case kind == sectionBetween:
			o.betweenIn.Frames = append(o.betweenIn.Frames, part)
		case kind == sectionBackup:
			o.learnSection(data)
		case kind == sectionMessage:
			receive(f.Peer, data)
		default:
			return false
		}
	}
	return r.Err() == nil
}

// records appends the records of both cores to the output. A mark before each record names its core.
func (o *Orders) records(out *multicast.Output) {
	if o.ownOut.Checkpoint || o.betweenOut.Checkpoint {
		out.Records, out.Checkpoint = append(out.Records, checkpoint(o.own.Checkpoint(), o.between.Checkpoint())), true
		return
	}
	for _, r := range o.ownOut.Records {
		out.Records = append(out.Records, mark(sectionOwn, r))
	}
	for _, r := range o.betweenOut.Records {
		out.Records = append(out.Records, mark(sectionBetween, r))
	}
}

func checkpoint(own, between []byte) []byte {
	return append(varint.AppendBytes([]byte{byte(sectionBoth)}, own), between...)
}

func mark(s section, record []byte) []byte {
	return append(append(make([]byte, 0, len(record)+1), byte(s)), record...)
}

// Replay feeds a record of the write-ahead log to the core that it belongs to, before New.
func Replay(own, between Core, record []byte) error {
	r := varint.NewReader(record)
	switch section(r.Uint8()) {
	case sectionOwn:
		return own.Replay(r.Rest())
	case sectionBetween:
		return between.Replay(r.Rest())
	case sectionBoth:
		first := r.Bytes()
		if r.Err() != nil {
			break
		}
		if err := own.Replay(first); err != nil {
			return err
		}
		return between.Replay(r.Rest())
	}
	return fmt.Errorf("record of %d bytes in the write-ahead log: not of this version: %w", len(record), ErrVersion)
}
