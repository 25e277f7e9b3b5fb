package meta

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/globalfs/globalfs/internal/invariant"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/varint"
)

// peer is the state of the exchange of posts and inode numbers with another partition.
type peer struct {
	posted    uint64 // number of the newest post to the other partition
	executed  uint64 // number of its last post that was executed here
	pool      []span // its numbers that this partition may give to new inodes
	refilling bool   // a request for more numbers is not answered yet
}

// span is a range of successive inode numbers.
type span struct {
	first posix.Ino
	count uint64
}

const peerKeyLength = 3

func peerKey(partition uint16) []byte {
	return binary.BigEndian.AppendUint16([]byte{prefixPeer}, partition)
}

// partitionOf returns the partition in the key of a peer or a post.
func partitionOf(key []byte) uint16 { return binary.BigEndian.Uint16(key[1:]) }

// peer reads the exchange with another partition.
func (m *Machine) peer(partition uint16) peer {
	b := m.keys.Get(peerKey(partition))
	if b == nil {
		return peer{}
	}
	p, err := decodePeer(b)
	invariant.Check(err == nil, "stored exchange with partition %d: %v", partition, err)
	return p
}

func (m *Machine) setPeer(partition uint16, p *peer) {
	b := varint.AppendUint(nil, p.posted)
	b = varint.AppendUint(b, p.executed)
	b = appendBool(b, p.refilling)
	b = varint.AppendUint(b, uint64(len(p.pool)))
	for _, s := range p.pool {
		b = varint.AppendUint(varint.AppendUint(b, s.first), s.count)
	}
	m.keys.Set(peerKey(partition), b)
}

func decodePeer(b []byte) (p peer, err error) {
	r := varint.NewReader(b)
	p.posted, p.executed, p.refilling = r.Uint64(), r.Uint64(), r.Uint(1) == 1
	for n := r.Count(); n > 0 && r.Err() == nil; n-- {
		s := span{posix.Ino(r.Uint64()), r.Uint64()}
		if s.count == 0 || s.first.Counter() <= 1 || s.count > 1<<posix.CounterBits-s.first.Counter() {
			r.Fail()
		}
		p.pool = append(p.pool, s)
	}
	return p, r.Done()
}

// left returns the count of numbers in the pool.
func (p *peer) left() (count uint64) {
	for _, s := range p.pool {
		count += s.count
	}
	return count
}

// take takes a number out of the pool; 0: the pool is empty.
func (p *peer) take() posix.Ino {
	if len(p.pool) == 0 {
		return 0
	}
	s := &p.pool[0]
	ino := s.first
	if s.first, s.count = s.first+1, s.count-1; s.count == 0 {
		p.pool = slices.Delete(p.pool, 0, 1)
	}
	return ino
}

// exchange checks the key of a peer.
func (c *checker) exchange(key, value []byte) {
	p, err := decodePeer(value)
	if partition := partitionOf(key); err != nil || len(key) != peerKeyLength || partition == c.partition {
		c.report("exchange with partition %d: %v", partition, err)
		return
	}
	for _, s := range p.pool {
		if s.first.Partition() != partitionOf(key) {
			c.report("pool of numbers of partition %d: %d is not one", partitionOf(key), s.first)
		}
	}
	c.posted[partitionOf(key)] = p.posted
}

func (s span) String() string { return fmt.Sprintf("%d numbers from %d on", s.count, s.first) }
