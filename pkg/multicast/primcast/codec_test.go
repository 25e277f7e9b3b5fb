package primcast

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/pkg/multicast"
)

func appendPacket(b []byte, p *packet) []byte {
	switch p.kind {
	case kindStart:
		return appendStart(b, &p.message, p.prev)
	case kindAck:
		return appendAck(b, &message{Message: p.message, epoch: p.epoch, ts: p.ts, index: p.index})
	case kindBump:
		return appendBump(b, p.epoch, p.ts, p.index)
	case kindHave:
		return appendHave(b, p.message.ID)
	case kindFetch:
		return appendFetch(b, p.message.ID)
	}
	return appendCovered(b, p.position)
}

func sampleFrame() []byte {
	m := msg(7, both...)
	b := appendStart(nil, m, 5)
	b = append(b, ackOf(m, epochG, 300, 9)...)
	b = appendBump(b, epochG, 301, 9)
	b = appendHave(b, m.ID)
	b = appendFetch(b, m.ID)
	return appendCovered(b, multicast.Position{Final: 12, ID: m.ID})
}

func FuzzFrame(f *testing.F) {
	f.Add(sampleFrame())
	f.Fuzz(func(t *testing.T, b []byte) {
		packets, err := decodeFrame(b, nil)
		if err != nil {
			return
		}
		var again []byte
		for i := range packets {
			again = appendPacket(again, &packets[i])
		}
		got, err := decodeFrame(again, nil)
		require.NoError(t, err)
		require.Equal(t, packets, got)
	})
}

// FuzzStep feeds arbitrary frames of one peer to a core, which must not break.
func FuzzStep(f *testing.F) {
	f.Add(uint32(1), sampleFrame())
	f.Add(uint32(5), sampleFrame())
	f.Fuzz(func(t *testing.T, from uint32, b []byte) {
		packets, err := decodeFrame(b, nil)
		if err != nil || len(packets) > 1 {
			return // several may contradict each other: a process that lies is out of the model
		}
		for self := multicast.ProcessID(1); self <= 2; self++ {
			hear(newCore(t, self), multicast.ProcessID(from), b)
		}
	})
}

func sampleLog(t testing.TB) [][]byte {
	n := newNetwork(t, 3, 3, 3)
	for range 60 {
		n.propose(n.nodes[n.rng.IntN(6)])
		n.turn()
	}
	n.settle()
	x := n.nodes[0]
	return append(x.log, x.core.appendCheckpoint(nil))
}

func FuzzReplay(f *testing.F) {
	for _, r := range sampleLog(f) {
		f.Add(r)
	}
	f.Fuzz(func(t *testing.T, record []byte) {
		c, err := New(Config{Self: 1, Groups: []multicast.Group{{ID: 0, Members: []multicast.ProcessID{1, 2, 3}}, {ID: 3, Members: []multicast.ProcessID{4, 5, 6}}}})
		require.NoError(t, err)
		if c.Replay(record) == nil {
			c.Step(&multicast.Input{}, &multicast.Output{})
			c.audit()
		}
	})
}

func TestReplayRefuses(t *testing.T) {
	m := &message{Message: *msg(1, both...), epoch: epochG, ts: 5, index: 1, prev: 0}
	entry := func(change func(*message)) []byte {
		other := *m
		change(&other)
		return appendEntry([]byte{recordEntry}, &other)
	}
	checkpoint := newCore(t, 3).appendCheckpoint(nil)
	for name, records := range map[string][][]byte{
		"empty":            {{}},
		"unknown kind":     {{99}},
		"cut":              {entry(func(*message) {})[:9]},
		"left over":        {append(entry(func(*message) {}), 0)},
		"another's epoch":  {entry(func(m *message) { m.epoch = epochH })},
		"no such group":    {entry(func(m *message) { m.Dest = []multicast.GroupID{1, 9} })},
		"no such sender":   {entry(func(m *message) { m.ID.Sender = 99 })},
		"a gap":            {entry(func(m *message) { m.index = 2 })},
		"twice":            {entry(func(*message) {}), entry(func(m *message) { m.index, m.ts = 2, 6 })},
		"time goes back":   {entry(func(*message) {}), entry(func(m *message) { m.index, m.ID.Seq = 2, 2 })},
		"final of nothing": {appendPosition([]byte{recordFinals, 1}, multicast.Position{Final: 9, ID: m.ID})},
		"final too low":    {entry(func(*message) {}), appendPosition([]byte{recordFinals, 1}, multicast.Position{Final: 4, ID: m.ID})},
		"another's":        {checkpoint},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCore(t, 1)
			var err error
			for _, r := range records {
				require.NoError(t, err)
				err = c.Replay(r)
			}
			require.Error(t, err)
		})
	}
}

func TestConfigValidate(t *testing.T) {
	group := func(id multicast.GroupID, members ...multicast.ProcessID) multicast.Group {
		return multicast.Group{ID: id, Members: members}
	}
	for want, cfg := range map[string]Config{
		"Self is process 9":              {Self: 9, Groups: []multicast.Group{group(1, 1)}},
		"Groups[1].ID is 1 again":        {Self: 1, Groups: []multicast.Group{group(1, 1), group(1, 2)}},
		"has 0 processes":                {Self: 1, Groups: []multicast.Group{group(1)}},
		"has process 0":                  {Self: 1, Groups: []multicast.Group{group(1, 0)}},
		"process 1 is in groups 1 and 2": {Self: 1, Groups: []multicast.Group{group(1, 1), group(2, 1)}},
		"FetchAfter is -1ns":             {Self: 1, Groups: []multicast.Group{group(1, 1)}, FetchAfter: -1},
		"CheckpointMin is -1 bytes":      {Self: 1, Groups: []multicast.Group{group(1, 1)}, CheckpointMin: -1},
	} {
		_, err := New(cfg)
		require.ErrorContains(t, err, want)
	}
}

func TestBadInputIsDroppedAndCounted(t *testing.T) {
	c := newCore(t, 2)
	start := appendStart(nil, msg(1, 1), 0)
	require.Empty(t, hear(c, 5, append(start, 99)).Frames)
	require.Empty(t, c.messages, "a bad frame has no effect at all")
	hear(c, 99, start)
	require.EqualValues(t, 2, c.Stats().BadFrames)
	hear(c, 5, appendStart(nil, msg(1, 2), 0))
	hear(c, 5, appendStart(nil, msg(1, 1, 7), 0))
	hear(c, 5, appendBump(nil, epochG, 4, 0))
	hear(c, 5, ackOf(msg(1, 1), epochG, 4, 1))
	require.EqualValues(t, 4, c.Stats().BadPackets)
	require.Empty(t, c.messages)

	c = newCore(t, 5)
	other := *msg(3, 1)
	other.ID.Sender = 1
	for _, m := range []multicast.Message{*msg(2, 1), *msg(2, 1), other, *msg(4), *msg(4, 7), {ID: msg(4).ID, Dest: both, After: maxNumber}} {
		c.Step(&multicast.Input{Proposed: []multicast.Message{m}}, &multicast.Output{})
	}
	require.EqualValues(t, 1, c.Stats().Repeated)
	require.EqualValues(t, 4, c.Stats().Refused)
}

func TestNumbers(t *testing.T) {
	id := func(seq uint64) multicast.MessageID { return multicast.MessageID{Sender: 1, Seq: seq} }
	n := numbers{}
	n.add(id(9), 5)
	n.add(id(3), 0)
	n.add(id(20), 9)
	require.Equal(t, []span{{3, 3}, {6, 20}}, n[1])
	require.True(t, n.has(id(12)))
	require.False(t, n.has(id(5)))
	require.False(t, n.has(multicast.MessageID{Sender: 2, Seq: 3}))
	n.add(id(5), 3)
	require.Equal(t, []span{{3, 20}}, n[1])
	n.add(id(30), 0)
	n.add(id(1), 0)
	require.Equal(t, 3, n.spans())
}
