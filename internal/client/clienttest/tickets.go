package clienttest

import (
	"encoding/binary"

	"github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/replica"
)

// ticketer gives tickets by the keys that prove vectors.
type ticketer struct{ keys *ask.Keys }

// Of implements replica.Tickets.
func (t ticketer) Of(client string) replica.ClientTickets { return ticketsOf{*t.keys, client} }

type ticketsOf struct {
	keys   ask.Keys
	client string
}

func (t ticketsOf) tag(key int, ino posix.Ino) []byte {
	return t.keys[key : key+1].Seal(binary.BigEndian.AppendUint64([]byte(t.client+"\x00"), uint64(ino)))[:8]
}

// Ticket implements replica.ClientTickets.
func (t ticketsOf) Ticket(ino posix.Ino) (ticket posix.Ticket) {
	for i := range t.keys[:min(len(t.keys), 2)] {
		copy(ticket[8*i:], t.tag(i, ino))
	}
	return ticket
}

// Holds implements replica.ClientTickets.
func (t ticketsOf) Holds(ino posix.Ino, shown posix.Ticket) (valid, newest bool) {
	for i := range t.keys {
		tag := [8]byte(t.tag(i, ino))
		first := tag == [8]byte(shown[:8])
		if first || tag == [8]byte(shown[8:]) {
			return true, first && i == 0
		}
	}
	return false, false
}
