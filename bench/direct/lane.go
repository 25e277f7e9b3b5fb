package direct

import (
	"slices"

	"github.com/globalfs/globalfs/internal/varint"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// lane is the messages of this process to one destination set.
type lane struct {
	class multicast.Class
	dest  []multicast.GroupID
	last  uint64                         // number of the newest message, from 1
	kept  []kept                         // messages that no quorum of each destination covers yet
	acked map[multicast.ProcessID]uint64 // up to where each member holds the lane durably
}

// kept is a message that may have to be repeated.
type kept struct {
	number  uint64 // in its lane
	seq     uint64 // of its id
	payload []byte
}

// add appends a new message.
func (l *lane) add(m *multicast.Message) kept {
	l.last++
	k := kept{number: l.last, seq: m.ID.Seq, payload: m.Payload}
	l.kept = append(l.kept, k)
	return k
}

// first returns the lowest number that some quorum may still miss: a member may skip all before it.
func (l *lane) first() uint64 {
	if len(l.kept) == 0 {
		return l.last + 1
	}
	return l.kept[0].number
}

// trim drops the messages up to a number.
func (l *lane) trim(upTo uint64) {
	l.kept = slices.DeleteFunc(l.kept, func(k kept) bool { return k.number <= upTo })
}

// Kinds of sections in frames. Records have the formats of kindData and kindCheckpoint.
const (
	kindData       = 1 + iota // a message
	kindAck                   // a position up to which a process holds a lane durably
	kindCheckpoint            // all lanes of a process
)

// data is a message on its way.
type data struct {
	dest  []multicast.GroupID
	first uint64 // all messages of the lane before it are covered by a quorum of each destination
	kept
}

// message returns the message of a sender.
func (d *data) message(sender multicast.ProcessID) multicast.Message {
	return multicast.Message{ID: multicast.MessageID{Sender: sender, Seq: d.seq}, Dest: d.dest, Payload: d.payload}
}

func (d *data) append(b []byte) []byte {
	b = appendDest(append(b, kindData), d.dest)
	return appendKept(varint.AppendUint(b, d.first), &d.kept)
}

func readData(r *varint.Reader) data {
	return data{dest: readDest(r), first: r.Uint64(), kept: readKept(r)}
}

func appendDest(b []byte, dest []multicast.GroupID) []byte {
	b = varint.AppendUint(b, uint64(len(dest)))
	for _, g := range dest {
		b = varint.AppendUint(b, g)
	}
	return b
}

func readDest(r *varint.Reader) (dest []multicast.GroupID) {
	for n := r.Count(); n > 0 && r.Err() == nil; n-- {
		dest = append(dest, multicast.GroupID(r.Uint16()))
	}
	return dest
}

func appendKept(b []byte, k *kept) []byte {
	return varint.AppendBytes(varint.AppendUint(varint.AppendUint(b, k.number), k.seq), k.payload)
}

func readKept(r *varint.Reader) kept {
	return kept{number: r.Uint64(), seq: r.Uint64(), payload: slices.Clone(r.Bytes())}
}

func appendAck(b []byte, at multicast.ClassPosition) []byte {
	return varint.AppendUint(varint.AppendBytes(append(b, kindAck), string(at.Class)), uint64(at.Final))
}

func readAck(r *varint.Reader) (multicast.Class, uint64) {
	return multicast.Class(r.String()), r.Uint64()
}
