package fabrictest

import (
	"bytes"
	"encoding/binary"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/pkg/fabric"
)

// revoke tests M3.
func (s *suite) revoke() {
	m := s.region(2, 7, 64, map[fabric.NodeID]fabric.Rights{1: both, 3: both})
	s.status(fabric.OK, 1, fabric.Op{Peer: 2, Region: 7, Data: encoded(1)})
	require.NoError(s, s.Nodes[2].Revoke(7, 1, fabric.Writable))
	s.status(fabric.Denied, 1, fabric.Op{Peer: 2, Region: 7, Data: encoded(2)})
	s.status(fabric.OK, 1, fabric.Op{Kind: fabric.Reset, Peer: 2, Region: 7})
	s.status(fabric.OK, 1, fabric.Op{Kind: fabric.Read, Peer: 2, Region: 7, Length: 8})
	s.status(fabric.Denied, 1, fabric.Op{Peer: 2, Region: 7, Data: encoded(3)})
	require.Equal(s, uint64(1), word(m, 0))
	s.status(fabric.OK, 3, fabric.Op{Peer: 2, Region: 7, Data: encoded(4)})
	require.NoError(s, s.Nodes[2].Grant(7, 1, fabric.Writable))
	s.status(fabric.OK, 1, fabric.Op{Kind: fabric.Reset, Peer: 2, Region: 7})
	s.status(fabric.OK, 1, fabric.Op{Peer: 2, Region: 7, Data: encoded(5)})
	require.Equal(s, uint64(5), word(m, 0))
}

// revokeOne: a queue goes on without a reset if its operations have rights whenever they are executed, while
// other rights are revoked and granted again.
func (s *suite) revokeOne() {
	m := s.region(2, 7, 64, map[fabric.NodeID]fabric.Rights{1: both})
	for round := range uint64(5) {
		s.status(fabric.OK, 1, fabric.Op{Peer: 2, Region: 7, Data: encoded(round + 1), Notify: true, Note: uint32(round)})
		s.await(2, "a notification", func(e *fabric.Events) bool { return len(e.Landed) == int(round)+1 })
		require.Equal(s, uint32(round), s.events[2].Landed[round].Note)
		require.NoError(s, s.Nodes[2].Revoke(7, 1, fabric.Writable))
		c := s.status(fabric.OK, 1, fabric.Op{Kind: fabric.Read, Peer: 2, Region: 7, Length: 8})
		require.Equal(s, encoded(round+1), c.Data)
		require.NoError(s, s.Nodes[2].Revoke(7, 1, fabric.Writable))
		require.NoError(s, s.Nodes[2].Grant(7, 1, fabric.Writable))
	}
	require.Equal(s, uint64(5), word(m, 0))
}

// revokeRace: a right is revoked while writes are under way. Writes that had succeeded before are in the
// memory, and the memory does not change afterwards. The longer writes have several packets on a network.
func (s *suite) revokeRace() {
	s.race(7, 1024, 30)
	s.race(8, 8192, 10)
}

func (s *suite) race(region fabric.RegionID, size, rounds int) {
	m := s.region(2, region, size, nil)
	for round := range rounds {
		require.NoError(s, s.Nodes[2].Grant(region, 1, fabric.Writable))
		s.status(fabric.OK, 1, fabric.Op{Kind: fabric.Reset, Peer: 2, Region: region})
		m.Store(0, make([]byte, size))
		s.events[1].Reset()
		const writes = 60
		var last uint64
		for i := range uint64(writes) {
			last = s.post(1, fabric.Op{Peer: 2, Region: region, Data: bytes.Repeat(encoded(i+1), size/8)})
		}
		s.await(1, "some completions", func(e *fabric.Events) bool { return len(e.Completions) > round })
		require.NoError(s, s.Nodes[2].Revoke(region, 1, fabric.Writable))
		then := load(m, 0, size)
		s.ended(1, last)
		s.status(fabric.Flushed, 3, s.broken(3))
		good := uint64(0)
		for _, c := range s.events[1].Completions {
			if c.Status == fabric.OK {
				require.Equal(s, last-writes+1+good, c.Token, "completions with OK come before all others")
				good++
			}
		}
		require.Equal(s, then, load(m, 0, size), "the region has changed after Revoke")
		for at := 0; at < size; at += 8 {
			v := binary.LittleEndian.Uint64(then[at:])
			require.GreaterOrEqual(s, v, good, "a write with OK is not there")
			require.LessOrEqual(s, v, good+1, "a write is there whose predecessor has no OK")
		}
		if good < writes {
			s.status(fabric.Flushed, 1, fabric.Op{Peer: 2, Region: region, Data: encoded(99)})
		}
		s.status(fabric.OK, 1, fabric.Op{Kind: fabric.Reset, Peer: 2, Region: region})
		s.status(fabric.Denied, 1, fabric.Op{Peer: 2, Region: region, Data: encoded(99)})
		require.Equal(s, then, load(m, 0, size), "a revoked writer has written")
	}
}

// broken breaks a queue of a node to a region that does not exist, which lets some time pass. It returns an
// operation for this queue.
func (s *suite) broken(id fabric.NodeID) fabric.Op {
	op := fabric.Op{Peer: 2, Region: 99, Data: encoded(1)}
	s.do(id, op)
	return op
}

// revokeReads: a right to read can be revoked, too.
func (s *suite) revokeReads() {
	m := s.region(2, 7, 8, map[fabric.NodeID]fabric.Rights{1: both})
	m.Store(0, encoded(1))
	s.status(fabric.OK, 1, fabric.Op{Kind: fabric.Read, Peer: 2, Region: 7, Length: 8})
	require.NoError(s, s.Nodes[2].Revoke(7, 1, fabric.Readable))
	m.Store(0, encoded(2))
	c := s.status(fabric.Denied, 1, fabric.Op{Kind: fabric.Read, Peer: 2, Region: 7, Length: 8})
	require.Empty(s, c.Data)
}

// takeOver: the right to write goes from one node to another, as with a change of leaders. The new node reads
// the words that the old node has written, and the old node never overwrites the new node's words.
func (s *suite) takeOver() {
	m := s.region(2, 7, 8, map[fabric.NodeID]fabric.Rights{1: both, 3: fabric.Readable})
	holder, other := fabric.NodeID(1), fabric.NodeID(3)
	high := uint64(0)
	for range 20 {
		s.status(fabric.OK, holder, fabric.Op{Kind: fabric.Reset, Peer: 2, Region: 7})
		tokens := []uint64{}
		for range 10 {
			high++
			tokens = append(tokens, s.post(holder, fabric.Op{Peer: 2, Region: 7, Data: encoded(high)}))
		}
		require.NoError(s, s.Nodes[2].Revoke(7, holder, fabric.Writable))
		require.NoError(s, s.Nodes[2].Grant(7, other, both))
		s.status(fabric.OK, other, fabric.Op{Kind: fabric.Reset, Peer: 2, Region: 7})
		c := s.status(fabric.OK, other, fabric.Op{Kind: fabric.Read, Peer: 2, Region: 7, Length: 8})
		seen := binary.LittleEndian.Uint64(c.Data)
		for i, token := range tokens {
			if s.ended(holder, token).Status == fabric.OK {
				require.GreaterOrEqual(s, seen, high-9+uint64(i), "a write with OK is not there")
			}
		}
		high++
		s.status(fabric.OK, other, fabric.Op{Peer: 2, Region: 7, Data: encoded(high)})
		require.Equal(s, high, word(m, 0))
		require.NoError(s, s.Nodes[2].Grant(7, holder, fabric.Readable))
		holder, other = other, holder
	}
}
