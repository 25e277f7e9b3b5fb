// Package fabrictest is the conformance suite of fabrics: it tests the promises of package fabric, for any
// provider.
package fabrictest

import (
	"bytes"
	"encoding/binary"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/pkg/fabric"
)

// Cluster has nodes 1, 2 and 3 of a fabric under test.
type Cluster struct {
	Nodes map[fabric.NodeID]fabric.Endpoint
	// Cut interrupts the connections between two nodes until mend is called.
	Cut func(a, b fabric.NodeID) (mend func())
}

// Run runs the suite. Each test gets a cluster of its own.
func Run(t *testing.T, start func(t *testing.T) *Cluster) {
	for name, test := range map[string]func(*suite){
		"WriteAndRead":      (*suite).writeAndRead,
		"Self":              (*suite).self,
		"Notify":            (*suite).notify,
		"Large":             (*suite).large,
		"Refused":           (*suite).refused,
		"FlushUntilReset":   (*suite).flushUntilReset,
		"QueuesAreApart":    (*suite).queuesAreApart,
		"Order":             (*suite).order,
		"Words":             (*suite).words,
		"Revoke":            (*suite).revoke,
		"RevokeRace":        (*suite).revokeRace,
		"RevokeOne":         (*suite).revokeOne,
		"RevokeReads":       (*suite).revokeReads,
		"TakeOver":          (*suite).takeOver,
		"Cut":               (*suite).cut,
		"NothingAfterReset": (*suite).nothingAfterReset,
		"Close":             (*suite).close,
		"BadArguments":      (*suite).badArguments,
	} {
		t.Run(name, func(t *testing.T) {
			s := &suite{T: t, Cluster: start(t), events: map[fabric.NodeID]*fabric.Events{}}
			for id := range s.Nodes {
				s.events[id] = &fabric.Events{}
			}
			test(s)
		})
	}
}

// suite is one test.
type suite struct {
	*testing.T
	*Cluster
	events map[fabric.NodeID]*fabric.Events
	token  uint64
}

// patience is how long a test waits for an event that must happen.
const patience = 30 * time.Second

// await waits until a condition holds. The conditions of tests depend on the events of a node and on memory.
func (s *suite) await(id fabric.NodeID, what string, holds func(e *fabric.Events) bool) {
	s.Helper()
	for range 100_000 {
		s.Nodes[id].Poll(s.events[id])
		if holds(s.events[id]) {
			return
		}
		s.Nodes[id].Wait(patience / 1000)
	}
	require.Fail(s, "waited in vain", what)
}

// post posts one operation and returns its token.
func (s *suite) post(from fabric.NodeID, op fabric.Op) uint64 {
	s.Helper()
	s.token++
	op.Token = s.token
	require.NoError(s, s.Nodes[from].Post(op))
	return s.token
}

// ended waits for a completion.
func (s *suite) ended(from fabric.NodeID, token uint64) (c fabric.Completion) {
	s.Helper()
	s.await(from, "a completion", func(e *fabric.Events) bool {
		for i := range e.Completions {
			if e.Completions[i].Token == token {
				c = e.Completions[i]
				return true
			}
		}
		return false
	})
	return c
}

// do posts an operation and waits for its end.
func (s *suite) do(from fabric.NodeID, op fabric.Op) fabric.Completion {
	s.Helper()
	return s.ended(from, s.post(from, op))
}

// status posts an operation and requires a certain status of its completion.
func (s *suite) status(want fabric.Status, from fabric.NodeID, op fabric.Op) fabric.Completion {
	s.Helper()
	c := s.do(from, op)
	require.Equal(s, want, c.Status, "%+v", op)
	require.Equal(s, op.Kind, c.Kind)
	require.Equal(s, op.Peer, c.Peer)
	require.Equal(s, op.Region, c.Region)
	return c
}

// region registers a region at a node and grants rights to peers.
func (s *suite) region(at fabric.NodeID, id fabric.RegionID, size int, rights map[fabric.NodeID]fabric.Rights) fabric.Memory {
	s.Helper()
	m, err := s.Nodes[at].Register(id, size)
	require.NoError(s, err)
	require.Equal(s, size, m.Size())
	for peer, r := range rights {
		require.NoError(s, s.Nodes[at].Grant(id, peer, r))
	}
	return m
}

func load(m fabric.Memory, at, length int) []byte {
	b := make([]byte, length)
	m.Load(at, b)
	return b
}

func word(m fabric.Memory, at int) uint64 { return binary.LittleEndian.Uint64(load(m, at, 8)) }

func encoded(v uint64) []byte { return binary.LittleEndian.AppendUint64(nil, v) }

const both = fabric.Readable | fabric.Writable

// writeAndRead tests Q3 and M1.
func (s *suite) writeAndRead() {
	m := s.region(2, 7, 64, map[fabric.NodeID]fabric.Rights{1: both, 3: fabric.Readable})
	require.Equal(s, make([]byte, 64), load(m, 0, 64))
	s.status(fabric.OK, 1, fabric.Op{Peer: 2, Region: 7, At: 3, Data: []byte("hello")})
	require.Equal(s, "hello", string(load(m, 3, 5)))
	m.Store(5, []byte("LL"))
	for _, reader := range []fabric.NodeID{1, 3} {
		c := s.status(fabric.OK, reader, fabric.Op{Kind: fabric.Read, Peer: 2, Region: 7, At: 2, Length: 7})
		require.Equal(s, "\x00heLLo\x00", string(c.Data))
	}
	s.status(fabric.OK, 1, fabric.Op{Peer: 2, Region: 7, At: 64})
	s.status(fabric.OK, 1, fabric.Op{Kind: fabric.Read, Peer: 2, Region: 7})
}

// self: a node has queues to itself, and needs the same rights.
func (s *suite) self() {
	m := s.region(1, 7, 8, nil)
	s.status(fabric.Denied, 1, fabric.Op{Peer: 1, Region: 7, Data: encoded(5)})
	require.NoError(s, s.Nodes[1].Grant(7, 1, both))
	s.status(fabric.OK, 1, fabric.Op{Kind: fabric.Reset, Peer: 1, Region: 7})
	s.status(fabric.OK, 1, fabric.Op{Peer: 1, Region: 7, Data: encoded(6), Notify: true, Note: 4})
	require.Equal(s, uint64(6), word(m, 0))
	s.await(1, "a notification", func(e *fabric.Events) bool { return len(e.Landed) == 1 && e.Landed[0].Note == 4 })
}

func (s *suite) notify() {
	s.region(2, 7, 64, map[fabric.NodeID]fabric.Rights{1: fabric.Writable})
	for i := range uint32(3) {
		s.post(1, fabric.Op{Peer: 2, Region: 7, At: int(8 * i), Data: encoded(1), Notify: i != 1, Note: 10 + i})
	}
	s.await(2, "notifications", func(e *fabric.Events) bool { return len(e.Landed) == 2 })
	require.Equal(s, []fabric.Landed{
		{From: 1, Region: 7, At: 0, Length: 8, Note: 10},
		{From: 1, Region: 7, At: 16, Length: 8, Note: 12},
	}, s.events[2].Landed)
}

func (s *suite) large() {
	const size = 3 << 20
	m := s.region(2, 7, size, map[fabric.NodeID]fabric.Rights{1: both})
	data := make([]byte, size)
	for i := range data {
		data[i] = byte(i * 7 >> 3)
	}
	s.status(fabric.OK, 1, fabric.Op{Peer: 2, Region: 7, Data: data})
	require.True(s, bytes.Equal(data, load(m, 0, size)))
	c := s.status(fabric.OK, 1, fabric.Op{Kind: fabric.Read, Peer: 2, Region: 7, Length: size})
	require.True(s, bytes.Equal(data, c.Data))
}

// refused: the initiator has the rights that the target grants, and no others.
func (s *suite) refused() {
	m := s.region(2, 7, 64, map[fabric.NodeID]fabric.Rights{1: fabric.Writable, 3: fabric.Readable})
	for name, try := range map[string]struct {
		from fabric.NodeID
		op   fabric.Op
	}{
		"no right to write": {3, fabric.Op{Peer: 2, Region: 7, Data: encoded(1)}},
		"no right to read":  {1, fabric.Op{Kind: fabric.Read, Peer: 2, Region: 7, Length: 8}},
		"no such region":    {1, fabric.Op{Peer: 2, Region: 8, Data: encoded(1)}},
		"behind the end":    {1, fabric.Op{Peer: 2, Region: 7, At: 57, Data: encoded(1)}},
		"far behind":        {1, fabric.Op{Peer: 2, Region: 7, At: fabric.MaxRegion, Data: encoded(1)}},
		"a long read":       {3, fabric.Op{Kind: fabric.Read, Peer: 2, Region: 7, Length: fabric.MaxRegion}},
	} {
		s.Log(name)
		s.status(fabric.Denied, try.from, try.op)
		s.status(fabric.OK, try.from, fabric.Op{Kind: fabric.Reset, Peer: 2, Region: try.op.Region})
	}
	require.Equal(s, make([]byte, 64), load(m, 0, 64))
}

// flushUntilReset tests Q2, Q4 and Q6.
func (s *suite) flushUntilReset() {
	m := s.region(2, 7, 64, map[fabric.NodeID]fabric.Rights{1: fabric.Writable})
	first := s.post(1, fabric.Op{Peer: 2, Region: 7, Data: encoded(1)})
	bad := s.post(1, fabric.Op{Kind: fabric.Read, Peer: 2, Region: 7, Length: 8})
	behind := s.post(1, fabric.Op{Peer: 2, Region: 7, At: 8, Data: encoded(1)})
	require.Equal(s, fabric.Flushed, s.ended(1, behind).Status)
	require.Equal(s, fabric.Denied, s.ended(1, bad).Status)
	require.Equal(s, fabric.OK, s.ended(1, first).Status)
	s.status(fabric.Flushed, 1, fabric.Op{Peer: 2, Region: 7, At: 8, Data: encoded(2)})
	var order []uint64
	for _, c := range s.events[1].Completions {
		order = append(order, c.Token)
	}
	require.Equal(s, []uint64{first, bad, behind, behind + 1}, order)
	c := s.status(fabric.OK, 1, fabric.Op{Kind: fabric.Reset, Peer: 2, Region: 7})
	require.NotZero(s, c.Incarnation)
	require.Zero(s, word(m, 8))
	s.status(fabric.OK, 1, fabric.Op{Peer: 2, Region: 7, At: 8, Data: encoded(3)})
	require.Equal(s, uint64(3), word(m, 8))
}

// queuesAreApart: an operation that is refused for one region breaks no other queue.
func (s *suite) queuesAreApart() {
	s.region(2, 7, 64, map[fabric.NodeID]fabric.Rights{1: fabric.Writable, 3: fabric.Writable})
	s.region(2, 8, 64, nil)
	for range 10 {
		bad := s.post(1, fabric.Op{Peer: 2, Region: 8, Data: encoded(1)})
		good := s.post(1, fabric.Op{Peer: 2, Region: 7, Data: encoded(1)})
		require.Equal(s, fabric.OK, s.ended(1, good).Status)
		require.NotEqual(s, fabric.OK, s.ended(1, bad).Status)
		s.status(fabric.OK, 3, fabric.Op{Peer: 2, Region: 7, Data: encoded(2)})
	}
}

// order: Q1. The second of two words is never ahead of the first one.
func (s *suite) order() {
	m := s.region(2, 7, 4096, map[fabric.NodeID]fabric.Rights{1: fabric.Writable})
	const rounds = 500
	for i := range uint64(rounds) {
		s.post(1, fabric.Op{Peer: 2, Region: 7, At: 0, Data: encoded(i + 1)})
		s.post(1, fabric.Op{Peer: 2, Region: 7, At: 4088, Data: encoded(i + 1)})
	}
	s.await(2, "the last word", func(*fabric.Events) bool {
		second := word(m, 4088)
		require.GreaterOrEqual(s, word(m, 0), second)
		return second == rounds
	})
}

// words tests M2: each word has one of the written values, and the value of the last write after its
// completion.
func (s *suite) words() {
	const size = 2048
	m := s.region(2, 7, size, map[fabric.NodeID]fabric.Rights{1: fabric.Writable})
	var last uint64
	const rounds = 200
	for i := range uint64(rounds) {
		last = s.post(1, fabric.Op{Peer: 2, Region: 7, Data: bytes.Repeat(encoded((i+1)*0x0101010101010101), size/8)})
	}
	s.await(1, "the last completion", func(e *fabric.Events) bool {
		all := load(m, 0, size)
		for at := 0; at < size; at += 8 {
			v := binary.LittleEndian.Uint64(all[at:])
			require.Zero(s, v%0x0101010101010101, "%x", v)
		}
		return len(e.Completions) > 0 && e.Completions[len(e.Completions)-1].Token == last
	})
	require.Equal(s, bytes.Repeat(encoded(rounds*0x0101010101010101), size/8), load(m, 0, size))
}

// cut: operations of an interrupted connection end, and the queue works again after a reset.
func (s *suite) cut() {
	m := s.region(2, 7, 64, map[fabric.NodeID]fabric.Rights{1: both, 3: both})
	s.status(fabric.OK, 1, fabric.Op{Peer: 2, Region: 7, Data: encoded(1)})
	mend := s.Cut(1, 2)
	first := s.post(1, fabric.Op{Peer: 2, Region: 7, Data: encoded(2)})
	second := s.post(1, fabric.Op{Peer: 2, Region: 7, Data: encoded(3)})
	require.Equal(s, fabric.Lost, s.ended(1, first).Status)
	require.NotEqual(s, fabric.OK, s.ended(1, second).Status)
	require.NotEqual(s, fabric.OK, s.do(1, fabric.Op{Kind: fabric.Reset, Peer: 2, Region: 7}).Status)
	s.status(fabric.OK, 3, fabric.Op{Peer: 2, Region: 7, At: 8, Data: encoded(9)})
	mend()
	s.resetUntilOK(1, 2, 7)
	s.status(fabric.OK, 1, fabric.Op{Peer: 2, Region: 7, Data: encoded(4)})
	require.Equal(s, uint64(4), word(m, 0))
}

// resetUntilOK repeats a reset of a queue until it succeeds.
func (s *suite) resetUntilOK(from, peer fabric.NodeID, id fabric.RegionID) {
	s.Helper()
	for range 10_000 {
		if s.do(from, fabric.Op{Kind: fabric.Reset, Peer: peer, Region: id}).Status == fabric.OK {
			return
		}
		s.Nodes[from].Wait(time.Millisecond)
	}
	require.Fail(s, "the queue is not reset")
}

// nothingAfterReset tests Q5: operations that were posted before a reset never land after it.
func (s *suite) nothingAfterReset() {
	m := s.region(2, 7, 4096, map[fabric.NodeID]fabric.Rights{1: both})
	for round := range uint64(8) {
		var last uint64
		for i := range uint64(40) {
			last = s.post(1, fabric.Op{Peer: 2, Region: 7, Data: bytes.Repeat(encoded(1000*round+i+1), 512)})
		}
		if round%2 == 0 {
			s.await(1, "a completion", func(e *fabric.Events) bool { return len(e.Completions) > 0 })
			mend := s.Cut(1, 2)
			s.ended(1, last)
			mend()
		}
		s.resetUntilOK(1, 2, 7)
		s.status(fabric.OK, 1, fabric.Op{Peer: 2, Region: 7, Data: bytes.Repeat(encoded(1000*round+999), 512)})
		for range 5 {
			s.Nodes[2].Wait(time.Millisecond)
			require.Equal(s, bytes.Repeat(encoded(1000*round+999), 512), load(m, 0, 4096))
		}
		s.events[1].Reset()
	}
}

// close: operations on a closed node are lost, also those that were under way.
func (s *suite) close() {
	s.region(2, 7, 64, map[fabric.NodeID]fabric.Rights{1: both, 3: both})
	s.status(fabric.OK, 1, fabric.Op{Peer: 2, Region: 7, Data: encoded(1)})
	s.post(1, fabric.Op{Peer: 2, Region: 7, Data: encoded(2)})
	require.NoError(s, s.Nodes[2].Close())
	require.Equal(s, fabric.Lost, s.do(3, fabric.Op{Peer: 2, Region: 7, Data: encoded(1)}).Status)
	s.await(1, "a failure", func(e *fabric.Events) bool {
		s.post(1, fabric.Op{Peer: 2, Region: 7, Data: encoded(3)})
		last := e.Completions[len(e.Completions)-1].Status
		return last == fabric.Lost || last == fabric.Flushed
	})
	require.NotEqual(s, fabric.OK, s.do(1, fabric.Op{Kind: fabric.Reset, Peer: 2, Region: 7}).Status)
}

func (s *suite) badArguments() {
	node := s.Nodes[1]
	require.Error(s, node.Post(fabric.Op{Peer: 2, Kind: 99}))
	require.Error(s, node.Grant(5, 2, both))
	require.Error(s, node.Revoke(5, 2, both))
	for _, size := range []int{0, -8, 12, fabric.MaxRegion + 8} {
		_, err := node.Register(5, size)
		require.Error(s, err, size)
	}
	s.region(1, 5, 8, nil)
	_, err := node.Register(5, 8)
	require.Error(s, err)
}
