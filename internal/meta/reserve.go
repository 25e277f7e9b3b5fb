package meta

import (
	"math/bits"

	"github.com/globalfs/globalfs/internal/invariant"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/varint"
)

// A client that makes something in another partition than its directory names the inode itself (made.go), by a number
// that its partition has reserved for it before. A reserved number stays so until it is used or given back. It must not end
// with the session: a command that names it may come long after that, and the partition of the directory, which alone
// decides, cannot know of the end. So a client that crashes leaves what it had not used: a few bytes.
//
// They are stored as bits, of 64 numbers each; no key when none is left.

// MaxReserve bounds the numbers of one OpReserve.
const MaxReserve = 256

// perReservation is the numbers of one key.
const perReservation = 64

func reservationKey(counter uint64) []byte {
	return numberKey(prefixReserved, counter/perReservation)
}

// reservations gives the bits of the numbers beside that of counter.
func (m *Machine) reservations(counter uint64) uint64 {
	b := m.keys.Get(reservationKey(counter))
	if b == nil {
		return 0
	}
	left, err := decodeReservations(b)
	invariant.Check(err == nil, "stored reservations of %d: %v", counter, err)
	return left
}

func decodeReservations(b []byte) (uint64, error) {
	r := varint.NewReader(b)
	left := r.Uint64()
	return left, r.Done()
}

func (m *Machine) setReservations(counter, left uint64) {
	if left == 0 {
		m.keys.Delete(reservationKey(counter))
		return
	}
	m.keys.Set(reservationKey(counter), varint.AppendUint(nil, left))
}

// reserve executes OpReserve: it gives numbers that follow each other, or takes back those that a client has
// never sent.
func (m *Machine) reserve(c *Command) Result {
	if c.Length == 0 || c.Length > MaxReserve {
		return failed(posix.EINVAL)
	}
	if c.Child != 0 {
		for i := range c.Length {
			m.takeReserved(c.Child + posix.Ino(i))
		}
		return Result{}
	}
	first := m.state.last + 1
	m.state.last += c.Length
	for n := first; n <= m.state.last; {
		end := min(m.state.last, n|(perReservation-1)) // of this key
		m.setReservations(n, m.reservations(n)|(1<<(end-n+1)-1)<<(n%perReservation))
		n = end + 1
	}
	return Result{Number: uint64(posix.MakeIno(m.cfg.Partition, first))}
}

// takeReserved ends the reservation of a number, and reports whether there was one.
func (m *Machine) takeReserved(ino posix.Ino) bool {
	if ino.Partition() != m.cfg.Partition {
		return false
	}
	n := ino.Counter()
	left, bit := m.reservations(n), uint64(1)<<(n%perReservation)
	if left&bit == 0 {
		return false
	}
	m.setReservations(n, left&^bit)
	return true
}

// reservation checks a key of reserved numbers.
func (c *checker) reservation(key, value []byte) {
	base := uint64(inoOf(key)) * perReservation
	left, err := decodeReservations(value)
	if err != nil || left == 0 || base+uint64(bits.Len64(left)) > c.state.last+1 {
		c.report("reserved numbers from %d on: %x (%v), the newest is %d", base, left, err, c.state.last)
		return
	}
	for ; left != 0; left &= left - 1 {
		ino := posix.MakeIno(c.partition, base+uint64(bits.TrailingZeros64(left)))
		if _, forwarded := c.forwardings[ino]; c.inodes[ino] != nil || forwarded {
			c.report("number %d is reserved and in use", ino)
		}
	}
}
