package cross

import (
	"github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/internal/order"
	"github.com/globalfs/globalfs/internal/session"
	"github.com/globalfs/globalfs/internal/varint"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// Replicas of different partitions send each other messages. Messages can be lost, repeated and delayed: each
// one can be made again from stored state. Malformed messages are dropped.

type messageKind uint8

// The kinds of messages. Their numbers never change.
const (
	messageVote    messageKind = 1 + iota // to the coordinator: the ballot of a party; it may ask for the outcome
	messageOutcome                        // from the coordinator
	messageConfirm                        // to the coordinator: the outcome is ordered
	messageAsk                            // from the coordinator: for a ballot
	messagePing                           // are you in reach?
	messagePong
	messagePosts   // posts of a partition
	messageReceipt // posts are executed
)

// name identifies a command in a message. From the position and the parties, a receiver that does not list
// the command knows whether it has ended.
type name struct {
	id      multicast.MessageID
	at      multicast.Position
	parties []uint16
	update  session.Update
	from    uint16 // the partition of the sender
}

func (x *command) name(from uint16) name {
	return name{id: x.id, at: x.position, parties: x.parties, update: x.update, from: from}
}

func appendName(b []byte, n name) []byte {
	b = varint.AppendUint(ask.AppendPosition(b, n.at), n.from)
	return varint.AppendUint(varint.AppendUint(appendParties(b, n.parties), n.update.Session), n.update.Seq)
}

func readName(r *varint.Reader) name {
	n := name{at: ask.ReadPosition(r), from: r.Uint16(), parties: readParties(r)}
	n.update = session.Update{Session: r.Uint64(), Seq: r.Uint64()}
	n.id = n.at.ID
	return n
}

// answer names the same command in a message of another partition.
func (n *name) answer(from uint16) name {
	a := *n
	a.from = from
	return a
}

// sendAll sends a message to processes.
func sendAll(o *order.Orders, to []multicast.ProcessID, message []byte) {
	for _, p := range to {
		o.Send(p, message)
	}
}
