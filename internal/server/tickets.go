package server

import (
	"crypto/cipher"
	"crypto/subtle"
	"encoding/binary"

	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/replica"
)

// tickets issues tickets for inodes to bound clients, and verifies them (package replica, tickets.go). A tag
// is the first half of the encrypted number of the inode, with a cipher of the client. A ticket has two tags,
// by the newest key of the servers and by the one before. A server without the newest key accepts the second
// tag, a server with a newer key the first. So the keys of servers may be changed one server after the other.
type tickets struct{ ciphers }

func newTickets(s *sealer) *tickets {
	return &tickets{ciphers{sealer: s, purpose: "ticket for inodes\x00"}}
}

// Of implements replica.Tickets.
func (t *tickets) Of(client string) replica.ClientTickets {
	if keys := t.of(client); len(keys) > 0 {
		return keys
	}
	return nil
}

// tagBytes is the length in bytes of one of the two tags of a ticket.
const tagBytes = len(posix.Ticket{}) / 2

func inodeTag(key cipher.Block, ino posix.Ino) (tag [tagBytes]byte) {
	var block [16]byte
	binary.BigEndian.PutUint64(block[:], uint64(ino))
	key.Encrypt(block[:], block[:])
	copy(tag[:], block[:])
	return tag
}

// Ticket implements replica.ClientTickets.
func (k clientKeys) Ticket(ino posix.Ino) (t posix.Ticket) {
	for i, key := range k[:min(len(k), 2)] {
		tag := inodeTag(key, ino)
		copy(t[i*tagBytes:], tag[:])
	}
	return t
}

// Holds implements replica.ClientTickets.
func (k clientKeys) Holds(ino posix.Ino, shown posix.Ticket) (valid, newest bool) {
	for i, key := range k {
		tag := inodeTag(key, ino)
		first := subtle.ConstantTimeCompare(tag[:], shown[:tagBytes]) == 1
		if first || subtle.ConstantTimeCompare(tag[:], shown[tagBytes:]) == 1 {
			return true, first && i == 0
		}
	}
	return false, false
}
