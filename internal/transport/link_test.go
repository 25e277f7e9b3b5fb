package transport

import (
	"math/rand/v2"
	"testing"

	"github.com/globalfs/globalfs/internal/wire"
	"github.com/globalfs/globalfs/pkg/multicast"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
)

// simEnd is one end of a simulated link: a process with its incarnation, its inbox, and the packets that it
// has written to streams and the other end has not read.
type simEnd struct {
	link
	self    int
	streams [][]*wire.Packet // the last one is the present one
	inbox   [][]byte         // nil: a start
	out, in stretch          // as in process
	got     int
}

// simulation is two ends of a link, with streams that break, deliver late, or never.
type simulation struct {
	t    *testing.T
	r    *rand.Rand
	ends [2]*simEnd

	memory []byte            // all frames are parts of it, so that windows fill at no cost
	tags   map[*byte]stretch // which frame begins where
}

func newSimulation(t *testing.T, memory []byte, seed uint64) *simulation {
	s := &simulation{t: t, r: rand.New(rand.NewPCG(seed, 0)), memory: memory, tags: map[*byte]stretch{}}
	for i := range s.ends {
		s.boot(i, 1)
	}
	return s
}

func (s *simulation) boot(i int, incarnation uint64) {
	var streams [][]*wire.Packet
	if s.ends[i] != nil {
		streams = s.ends[i].streams // may still arrive
	}
	s.ends[i] = &simEnd{link: newLink(processOf(1-i), incarnation), self: i, streams: append(streams, nil)}
}

func processOf(i int) multicast.ProcessID { return multicast.ProcessID(i + 1) }

func (s *simulation) step() {
	e := s.ends[s.r.IntN(2)]
	switch s.r.IntN(24) {
	case 0:
		if s.r.IntN(20) == 0 {
			s.boot(e.self, e.mine.incarnation+1)
		}
	case 1, 2:
		e.streams = append(e.streams, nil) // the present stream broke, a new one is there
		e.resume()
	case 3:
		if len(e.streams) > 1 { // the remaining packets of an old stream are lost
			e.streams = e.streams[1:]
		}
	case 4, 5, 6, 7, 8, 9:
		s.send(e)
	case 10, 11, 12, 13, 14:
		s.take(e)
	case 15, 16, 17, 18:
		s.write(e)
	case 19:
		e.due = true
	default:
		s.read(e, s.r.IntN(len(e.streams)))
	}
	s.check(e)
}

func (s *simulation) send(e *simEnd) {
	size := 1 + s.r.IntN(100)
	if s.r.IntN(20) == 0 { // frames that fill the window
		size = MaxFrame / 2
	}
	at := len(s.tags)
	frame := s.memory[at : at+size : at+size]
	s.tags[&frame[0]] = e.out
	if e.link.send(frame) == nil && e.out.session > 0 {
		e.out.next++
	}
}

// take: the owner takes an arrival, and accepts a start only at that time.
func (s *simulation) take(e *simEnd) {
	if len(e.inbox) == 0 {
		return
	}
	a := e.inbox[0]
	e.inbox = e.inbox[1:]
	e.took(a)
	if a == nil {
		e.accept()
		e.out = stretch{life: e.mine.incarnation, session: e.out.session + 1}
		e.in = stretch{}
		return
	}
	got := s.tags[&a[0]]
	if e.in.next == 0 {
		e.in.life, e.in.session = got.life, got.session
	}
	require.Equal(s.t, e.in, got)
	e.in.next++
	e.got++
}

func (s *simulation) write(e *simEnd) {
	if e.ready() {
		p := e.next(processOf(e.self), s.r.IntN(400))
		last := len(e.streams) - 1
		e.streams[last] = append(e.streams[last], p)
	}
}

// read delivers the oldest packet of a stream from e, present or old.
func (s *simulation) read(e *simEnd, stream int) {
	packets := e.streams[stream]
	if len(packets) == 0 {
		return
	}
	e.streams[stream] = packets[1:]
	to := s.ends[1-e.self]
	start, frames, err := to.receive(packets[0])
	require.NoError(s.t, err)
	if start {
		to.inbox = append(to.inbox, nil)
	}
	to.inbox = append(to.inbox, frames...)
}

// check checks the invariants of a link.
func (s *simulation) check(e *simEnd) {
	require.LessOrEqual(s.t, e.acknowledged, e.accepted)
	require.LessOrEqual(s.t, e.accepted, e.arrived)
	require.LessOrEqual(s.t, e.bytes, Window)
	require.LessOrEqual(s.t, e.unread+e.stale, Window+sizeOf(nil))
	require.LessOrEqual(s.t, e.written, len(e.queue))
	if e.started {
		require.Zero(s.t, e.stale)
	} else {
		require.Empty(s.t, e.queue)
	}
	waiting := 0
	for _, a := range e.inbox {
		waiting += sizeOf(a)
	}
	require.Equal(s.t, waiting, e.unread+e.stale)
}

// heal delivers everything.
func (s *simulation) heal() {
	for range 100 {
		for _, e := range s.ends {
			for len(e.streams) > 1 || len(e.streams[0]) > 0 {
				for len(e.streams[0]) > 0 {
					s.read(e, 0)
				}
				if len(e.streams) == 1 {
					break
				}
				e.streams = e.streams[1:]
			}
			for len(e.inbox) > 0 {
				s.take(e)
			}
			for e.ready() {
				s.write(e)
			}
			s.check(e)
		}
	}
}

func TestLinkOverBreakingStreams(t *testing.T) {
	base := rand.Uint64()
	got, full := 0, 0
	memory := make([]byte, MaxFrame)
	for seed := base; seed != base+100; seed++ {
		s := newSimulation(t, memory, seed)
		for range 1000 {
			s.step()
		}
		for _, e := range s.ends {
			full += int(e.mine.restarts)
			e.streams = append(e.streams, nil)
			e.resume()
		}
		s.heal()
		for i, e := range s.ends {
			require.False(t, e.full, "seed %d", seed)
			s.send(e)
			s.heal()
			require.Equal(t, e.out, s.ends[1-i].in, "seed %d: what was sent since the last start arrived", seed)
			got += e.got
		}
	}
	t.Logf("%d frames, %d full windows", got, full)
	require.NotZero(t, full)
}

// FuzzLink feeds packets of a wild peer: there is no panic, and at most one window is taken in.
func FuzzLink(f *testing.F) {
	a, b := newLink(2, 1), newLink(1, 1)
	for range 3 {
		p := a.next(1, 1000)
		_, _, _ = b.receive(p)
		q := b.next(2, 1000)
		_, _, _ = a.receive(q)
		b.accept()
		_ = b.send([]byte("frame"))
		seed, err := proto.Marshal(&wire.Batch{Packets: []*wire.Packet{q}})
		require.NoError(f, err)
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var batch wire.Batch
		if proto.Unmarshal(data, &batch) != nil {
			return
		}
		k := newLink(1, 1)
		for _, p := range batch.Packets {
			start, frames, _ := k.receive(p)
			if start {
				k.accept()
				_ = k.send([]byte("x"))
			}
			for _, f := range frames {
				require.NotEmpty(t, f)
			}
			require.LessOrEqual(t, k.unread+k.stale, Window+sizeOf(nil))
			_ = k.next(2, 100)
		}
	})
}
