package replica

import (
	"errors"
	"slices"

	"github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/session"
	"github.com/globalfs/globalfs/internal/turn"
)

// Numbers of inodes are easy to guess. So a bound client must show a ticket for each inode that its request
// names. It gets the ticket of an inode with the first answer that names the inode, after the checks of
// permissions. The asked replica verifies tickets and removes them from the request before it orders the
// request: other replicas, the log and the state contain no tickets.

// Tickets issues and verifies the tickets of clients.
type Tickets interface {
	// Of returns the tickets of the client with a name; nil: there are no keys, and tickets are not
	// verified.
	Of(client string) ClientTickets
}

// ClientTickets proves that a client has received the number of an inode from a replica of the cluster.
type ClientTickets interface {
	// Ticket returns the client's ticket for an inode.
	Ticket(ino posix.Ino) posix.Ticket
	// Holds reports whether a ticket is valid for the client, and whether it is by the newest key. A valid
	// ticket that is not by the newest key becomes invalid with the next change of the keys.
	Holds(ino posix.Ino, shown posix.Ticket) (valid, newest bool)
}

// errOldClient refuses a client that cannot show tickets.
var errOldClient = errors.New("the mount shows no tickets for inodes: it is of an older version: upgrade it, or set clients: {inode_tickets: optional} in the cluster file of all servers until it is upgraded")

// naming is the information about a request of a bound client that is needed to make the tickets of its
// answer.
type naming struct {
	client ClientTickets
	op     meta.Op     // the operation of a query or an update
	named  []posix.Ino // the inodes that the request names
	renew  bool        // the client needs new tickets for named
}

// tickets verifies the tickets of requests. For each request under way it keeps the information for the
// answer. It is not safe for concurrent use.
type tickets struct {
	keys     Tickets // nil: tickets are not verified
	optional bool    // requests without valid tickets are executed, too
	calls    map[uint64]naming
}

// refuses returns the reason why no request of this client is executed, whatever inodes it names; nil: there
// is none.
func (t *tickets) refuses(q *ask.Request, from *ask.Client) error {
	if t.keys != nil && !t.optional && from.Bounds() != nil && (q.Kind == ask.Query || q.Kind == ask.Update) && !q.Ticketed {
		return errOldClient
	}
	return nil
}

// admits reports whether a request shows valid tickets for all inodes that its command names. From a renewal
// it removes the inodes without a valid ticket, except those that the session holds already: the keys may
// have changed since, and the answer has new tickets for them.
func (t *tickets) admits(call *turn.Call, q *ask.Request, c *meta.Command, sessions *session.Sessions) bool {
	n := t.begin(call, q, c)
	if n.client == nil {
		return true
	}
	valid := t.verify(&n, q.Tickets)
	switch {
	case t.optional:
	case q.Kind == ask.RenewSession:
		q.Held, n.named = withValid(n.named, valid, sessions.HeldBy(q.Session, call.From))
	case slices.Contains(valid, false):
		return false
	}
	if q.Ticketed {
		t.calls[call.Token] = n
	}
	return true
}

// begin returns the naming of a request; without a client, the request needs no tickets.
func (t *tickets) begin(call *turn.Call, q *ask.Request, c *meta.Command) (n naming) {
	if t.keys == nil || call.From.Bounds() == nil {
		return n
	}
	switch q.Kind {
	case ask.Query, ask.Update:
		n = naming{op: c.Op, named: c.Named()}
	case ask.RenewSession:
		n.named = q.Held
	default:
		return n
	}
	n.client = t.keys.Of(call.From.Owner())
	return n
}

// verify reports for each inode that a request names whether the request shows a valid ticket.
func (t *tickets) verify(n *naming, shown []posix.Ticket) (valid []bool) {
	valid = make([]bool, len(n.named))
	for i, ino := range n.named {
		var ticket posix.Ticket
		if i < len(shown) {
			ticket = shown[i]
		}
		newest := true
		if valid[i] = !meta.NeedsTicket(ino); !valid[i] {
			valid[i], newest = n.client.Holds(ino, ticket)
		}
		n.renew = n.renew || !newest
	}
	return valid
}

// withValid returns the inodes that have a valid ticket or were held before, and a list of all inodes in
// which the others are replaced by 0.
func withValid(all []posix.Ino, valid []bool, before []posix.Ino) (held, named []posix.Ino) {
	if !slices.Contains(valid, false) {
		return all, all
	}
	known := make(map[posix.Ino]bool, len(before))
	for _, ino := range before {
		known[ino] = true
	}
	named = make([]posix.Ino, len(all))
	for i, ino := range all {
		if valid[i] || known[ino] {
			held, named[i] = append(held, ino), ino
		}
	}
	return held, named
}

// give returns the tickets for an answer, and forgets the request.
func (t *tickets) give(token uint64, s ask.Outcome, answer []byte) (given []posix.Ticket) {
	n, ok := t.calls[token]
	if !ok {
		return nil
	}
	delete(t.calls, token)
	if s != ask.Answered {
		return nil
	}
	var all []posix.Ino
	if len(answer) > 0 {
		result, err := meta.DecodeResult(answer)
		if err != nil {
			return nil // the client cannot decode the answer either
		}
		all = meta.NewInodes(n.op, n.named, &result)
	}
	if n.renew {
		all = append(all, n.named...)
	}
	given = make([]posix.Ticket, len(all))
	for i, ino := range all {
		if ino != 0 {
			given[i] = n.client.Ticket(ino)
		}
	}
	return given
}

// withdraw forgets requests.
func (t *tickets) withdraw(tokens []uint64) {
	for _, token := range tokens {
		delete(t.calls, token)
	}
}
