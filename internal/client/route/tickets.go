package route

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"sync"
	"time"

	"github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// A client whose certificate does not name user 0 shows a ticket for each inode that it names (package
// replica). Replicas give the tickets with the answers that name the inodes. Other clients get no tickets,
// and show none.
//
// The kernel does not tell exactly when it forgets an inode. So tickets are kept in two generations: a new or
// used ticket is put into the young one, and a full young generation replaces the old one. Renewals use the
// tickets of all open inodes. Without a ticket a replica answers ESTALE, and the client forgets the ticket.
// For a path, the kernel then looks up all names again. The client sends such a lookup to a replica even if
// it remembers the name, and so gets a new ticket.

// maxYoung is the maximum number of tickets of the young generation.
const maxYoung = 1 << 18

// tickets are the tickets of a client.
type tickets struct {
	limit int // maximum number of young tickets

	mu         sync.Mutex
	young, old map[posix.Ino]posix.Ticket        // GUARDED_BY mu
	plain      map[multicast.ProcessID]time.Time // time until which a replica counts as one of a version before tickets
}

func newTickets(limit int) *tickets {
	return &tickets{limit: limit, young: map[posix.Ino]posix.Ticket{}, plain: map[multicast.ProcessID]time.Time{}}
}

// get returns the ticket of an inode, or the zero ticket. The caller holds t.mu.
func (t *tickets) get(ino posix.Ino) posix.Ticket {
	ticket, ok := t.young[ino]
	if ok {
		return ticket
	}
	if ticket, ok = t.old[ino]; ok {
		t.put(ino, ticket)
	}
	return ticket
}

// put stores a ticket. The caller holds t.mu.
func (t *tickets) put(ino posix.Ino, ticket posix.Ticket) {
	if ticket == (posix.Ticket{}) || ino == 0 {
		return
	}
	if len(t.young) >= t.limit {
		t.young, t.old = map[posix.Ino]posix.Ticket{}, t.young
	}
	t.young[ino] = ticket
}

// show returns the tickets of inodes for a request; nil: the client has no tickets.
func (t *tickets) show(named []posix.Ino) []posix.Ticket {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.young) == 0 && len(t.old) == 0 {
		return nil
	}
	shown := make([]posix.Ticket, len(named))
	for i, ino := range named {
		shown[i] = t.get(ino)
	}
	return shown
}

// forget drops the ticket of an inode.
func (t *tickets) forget(ino posix.Ino) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.young, ino)
	delete(t.old, ino)
}

// ShowsTicket reports whether the client can name an inode in a request: it has a ticket for it, or needs
// none.
func (r *Router) ShowsTicket(ino posix.Ino) bool {
	t := r.net.tickets
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.young)+len(t.old) == 0 || !meta.NeedsTicket(ino) || t.get(ino) != (posix.Ticket{})
}

// learn stores the tickets of a reply: those of the inodes in returned, and those of named if the reply
// renews them.
func (t *tickets) learn(given []posix.Ticket, returned, named []posix.Ino) {
	if len(given) == 0 || len(given) != len(returned) && len(given) != len(returned)+len(named) {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for i, ticket := range given {
		if i < len(returned) {
			t.put(returned[i], ticket)
		} else {
			t.put(named[i-len(returned)], ticket)
		}
	}
}

// learnFrom keeps the tickets in the reply to a command.
func (t *tickets) learnFrom(reply *ask.Reply, op meta.Op, named []posix.Ino, result *meta.Result) {
	if len(reply.Tickets) > 0 {
		t.learn(reply.Tickets, meta.NewInodes(op, named, result), named)
	}
}

// plainFor is the time for which a replica of a version before tickets gets requests without tickets. Then it
// is tried again, because it may have been upgraded.
const plainFor = 10 * time.Second

// isPlain reports whether a replica has a version before tickets, as far as the client knows.
func (t *tickets) isPlain(p multicast.ProcessID) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	until, ok := t.plain[p]
	return ok && time.Now().Before(until)
}

// setPlain records whether a replica has a version before tickets.
func (t *tickets) setPlain(p multicast.ProcessID, plain bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if plain {
		t.plain[p] = time.Now().Add(plainFor)
	} else {
		delete(t.plain, p)
	}
}

// maxSaved bounds the tickets in a State of a running router, except those of held inodes, because such a
// State is made several times a second.
const maxSaved = 1 << 12

// savedBytes is the size of a ticket with the number of its inode.
const savedBytes = 8 + len(posix.Ticket{})

// save returns the tickets of held inodes and of at most limit others, preferably young ones, as text.
func (t *tickets) save(held []posix.Ino, limit int) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var b []byte
	add := func(ino posix.Ino, ticket posix.Ticket) {
		b = append(binary.BigEndian.AppendUint64(b, uint64(ino)), ticket[:]...)
	}
	for _, ino := range held {
		if ticket := t.get(ino); ticket != (posix.Ticket{}) {
			add(ino, ticket)
		}
	}
	for ino, ticket := range t.young {
		if limit--; limit < 0 {
			break
		}
		add(ino, ticket)
	}
	for ino, ticket := range t.old {
		if _, younger := t.young[ino]; younger {
			continue
		}
		if limit--; limit < 0 {
			break
		}
		add(ino, ticket)
	}
	return base64.StdEncoding.EncodeToString(b)
}

// saved is a ticket of a State.
type saved struct {
	ino    posix.Ino
	ticket posix.Ticket
}

// parseTickets decodes the output of save.
func parseTickets(text string) (all []saved, err error) {
	b, err := base64.StdEncoding.DecodeString(text)
	if err != nil || len(b)%savedBytes != 0 {
		return nil, fmt.Errorf("%d bytes of tickets are malformed: %w", len(text), posix.EINVAL)
	}
	for ; len(b) > 0; b = b[savedBytes:] {
		all = append(all, saved{posix.Ino(binary.BigEndian.Uint64(b)), posix.Ticket(b[8:savedBytes])})
	}
	return all, nil
}

// adopt stores the tickets of a State.
func (t *tickets) adopt(text string) error {
	all, err := parseTickets(text)
	if err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, s := range all {
		t.put(s.ino, s.ticket)
	}
	return nil
}
