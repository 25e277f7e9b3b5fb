package ask

import (
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/varint"
)

// appendTickets appends tickets without their number: they are the last part of a message.
func appendTickets(b []byte, tickets []posix.Ticket) []byte {
	for i := range tickets {
		b = append(b, tickets[i][:]...)
	}
	return b
}

// readTickets reads the rest of a message as tickets. If the rest is malformed, r.Err reports it.
func readTickets(r *varint.Reader) (tickets []posix.Ticket) {
	n := r.Len() / len(posix.Ticket{})
	if n > 0 {
		tickets = make([]posix.Ticket, n)
	}
	for i := range tickets {
		r.Fixed(tickets[i][:])
	}
	return tickets
}
