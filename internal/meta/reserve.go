package meta

import (
	"cmp"
	"fmt"
	"math/bits"

	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/varint"
)

// Reserved numbers are in the pools of other partitions (pool.go), or were given to names there, and have no
// inode yet. They are stored as bits, 64 numbers in each key; a key without bits is removed. The machine
// holds a copy in memory, because each query and update reads it.

// perReservation is the number of inode numbers in one key.
const perReservation = 64

func reservationKey(counter uint64) []byte {
	return numberKey(prefixReserved, counter/perReservation)
}

// loadReservations reads all reservations. The error names a key that is malformed.
func loadReservations(keys Keys) (map[uint64]uint64, error) {
	all := map[uint64]uint64{}
	for key, value := range keys.Scan([]byte{prefixReserved}, []byte{prefixReserved + 1}) {
		left, err := decodeReservations(value)
		if err != nil || len(key) != 9 {
			return nil, fmt.Errorf("stored reservations, key %x: %w", key, cmp.Or(err, varint.ErrMalformed))
		}
		all[uint64(inoOf(key))] = left
	}
	return all, nil
}

func decodeReservations(b []byte) (uint64, error) {
	r := varint.NewReader(b)
	left := r.Uint64()
	return left, r.Done()
}

func (m *Machine) setReservations(counter, left uint64) {
	if left == 0 {
		delete(m.reserved, counter/perReservation)
		m.keys.Delete(reservationKey(counter))
		return
	}
	m.reserved[counter/perReservation] = left
	m.keys.Set(reservationKey(counter), varint.AppendUint(nil, left))
}

// reserveNumbers reserves successive numbers, and returns the first.
func (m *Machine) reserveNumbers(count uint64) posix.Ino {
	first := m.state.last + 1
	m.state.last += count
	for n := first; n <= m.state.last; {
		end := min(m.state.last, n|(perReservation-1)) // last number of this key
		m.setReservations(n, m.reserved[n/perReservation]|(1<<(end-n+1)-1)<<(n%perReservation))
		n = end + 1
	}
	return posix.MakeIno(m.cfg.Partition, first)
}

// takeReserved ends the reservation of a number, and reports whether there was one.
func (m *Machine) takeReserved(ino posix.Ino) bool {
	if ino.Partition() != m.cfg.Partition {
		return false
	}
	n := ino.Counter()
	left, bit := m.reserved[n/perReservation], uint64(1)<<(n%perReservation)
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
	c.reserved[base] = left
}

// isReserved reports whether a number was found among the reserved ones.
func (c *checker) isReserved(ino posix.Ino) bool {
	n := ino.Counter()
	return ino.Partition() == c.partition && c.reserved[n/perReservation*perReservation]&(1<<(n%perReservation)) != 0
}
