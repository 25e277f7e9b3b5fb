package primcast

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/varint"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// samplePackets has a packet of every kind.
func samplePackets() []packet {
	m := msg(7, both...)
	at := multicast.Position{Final: 12, ID: m.ID}
	next := Epoch{Number: 2, Leader: 2}
	sparse := entryOf(epochG, 9, 300, m)
	sparse.prev = 5
	promised := promiseOf(next, epochG, 9, 301)
	promised.promise.decided = 8
	state := newStateOf(next, 8, 9, 301)
	state.roster.before = []multicast.ProcessID{1, 2}
	return []packet{
		startOf(m, 5), entryOf(epochG, 1, 2, m), sparse, ackOf(epochG, 9, 300), frontOf(epochG, 9, 300, at), frontOf(epochG, 9, 300, multicast.Position{}),
		{kind: kindBump, epoch: epochG, ts: 301, last: 9},
		{kind: kindHave, message: multicast.Message{ID: m.ID}}, {kind: kindFetch, message: multicast.Message{ID: m.ID}},
		{kind: kindUpTo, epoch: epochG, prev: 3, index: 7},
		{kind: kindFetchLog, epoch: epochG, index: 9, length: 8}, {kind: kindCovered, position: at}, {kind: kindCovered, class: multicast.ClassOf(both), position: at},
		newEpochOf(next), promised, state, acceptOf(next), {kind: kindPing}, {kind: kindSilent, epoch: next}, {kind: kindSilent, epoch: next, amnesiac: true},
		{kind: kindRoster, group: 1, roster: roster{since: epochG, latest: next, ids: []multicast.ProcessID{1, 2, 7}}, known: true},
		{kind: kindReplace, replacement: multicast.Replacement{Old: 3, New: 7}}, {kind: kindBehind, position: at},
	}
}

func TestEveryKindIsSampled(t *testing.T) {
	var kinds [256]bool
	for _, p := range samplePackets() {
		kinds[p.kind] = true
	}
	for k := range 256 {
		_, err := decodeFrame([]byte{byte(k), 200, 200}, nil)
		require.Error(t, err)
		require.Equal(t, kindStart <= kind(k) && kind(k) <= kindNewState && kind(k) != kindAccept-1, kinds[k], "kind %d", k)
	}
}

func FuzzFrame(f *testing.F) {
	f.Add(encode(samplePackets()...))
	for _, p := range samplePackets() {
		f.Add(encode(p))
	}
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

// FuzzStep feeds an arbitrary packet of one peer to a core, which must not break.
func FuzzStep(f *testing.F) {
	for _, p := range samplePackets() {
		f.Add(uint32(1), encode(p))
		f.Add(uint32(5), encode(p))
	}
	f.Fuzz(func(t *testing.T, from uint32, b []byte) {
		packets, err := decodeFrame(b, nil)
		if err != nil || len(packets) > 1 {
			return // several may contradict each other: a lying process is outside the model
		}
		for self := multicast.ProcessID(1); self <= 2; self++ {
			newProc(t, self).hear(multicast.ProcessID(from), packets...)
		}
	})
}

// sampleLog has records of every kind: the log of a process that lives through changes of the primary and
// of the members.
func sampleLog(t testing.TB) [][]byte {
	c := newCluster(t, func(cfg *Config) { cfg.CheckpointMin = 600 })
	c.run(2 * tick)
	for seq := uint64(1); seq <= 20; seq++ {
		c.cast(msg(seq, [][]multicast.GroupID{{1}, {2}, both}[seq%3]...))
		c.run(2 * tick)
	}
	c.down[1] = true
	for seq := uint64(21); seq <= 25; seq++ {
		c.cast(msg(seq, both...))
		c.run(2 * time.Second)
	}
	c.step(2, multicast.Input{Replace: []multicast.Replacement{{Old: 3, New: 7}}})
	c.run(2 * time.Second)
	return append(c.proc(2).records, c.proc(2).appendCheckpoint(nil))
}

func TestEveryRecordIsSampled(t *testing.T) {
	kinds := map[byte]bool{}
	for _, r := range sampleLog(t) {
		kinds[r[0]] = true
	}
	for k := byte(recordEntry); k <= recordRoster; k++ {
		require.True(t, kinds[k], "kind %d", k)
	}
	require.Len(t, kinds, recordRoster)
}

func FuzzReplay(f *testing.F) {
	for _, r := range sampleLog(f) {
		f.Add(r)
	}
	f.Fuzz(func(t *testing.T, record []byte) {
		c, err := New(Config{Self: 1, Groups: []multicast.Group{groupG, groupH}})
		require.NoError(t, err)
		if c.Replay(record) == nil {
			c.Step(&multicast.Input{}, &multicast.Output{})
			c.audit()
		}
	})
}

func TestReplayRefuses(t *testing.T) {
	m := &message{Message: *msg(1, both...), ts: 5, index: 1, prev: 0}
	entry := func(change func(*message)) []byte {
		other := *m
		change(&other)
		return appendRecord([]byte{recordEntry}, &other)
	}
	state := func(e Epoch, from, length uint64, ids ...multicast.ProcessID) []byte {
		b := varint.AppendUint(varint.AppendUint(appendEpoch([]byte{recordState}, e), from), length)
		return varint.AppendUint(appendRoster(b, roster{since: e, latest: e, ids: ids}), uint64(0))
	}
	first := entry(func(*message) {})
	second := Epoch{Number: 2, Leader: 2}
	for name, records := range map[string][][]byte{
		"empty":               {{}},
		"unknown kind":        {{99}},
		"cut":                 {first[:9]},
		"left over":           {append(entry(func(*message) {}), 0)},
		"no such group":       {entry(func(m *message) { m.Dest = []multicast.GroupID{1, 9} })},
		"a gap":               {entry(func(m *message) { m.index = 2 })},
		"twice":               {first, entry(func(m *message) { m.index, m.ts = 2, 6 })},
		"time goes back":      {first, entry(func(m *message) { m.index, m.ID.Seq = 2, 2 })},
		"final of nothing":    {appendPosition([]byte{recordFinals, 1}, multicast.Position{Final: 9, ID: m.ID})},
		"final too low":       {first, appendPosition([]byte{recordFinals, 1}, multicast.Position{Final: 4, ID: m.ID})},
		"another's log":       {newProc(t, 5).appendCheckpoint(nil)},
		"another's epoch":     {appendEpoch([]byte{recordPromise}, epochH)},
		"a promise goes back": {state(second, 0, 0, 1, 2, 3), appendEpoch([]byte{recordPromise}, epochG)},
		"a state goes back":   {state(second, 0, 0, 1, 2, 3), state(epochG, 0, 0, 1, 2, 3)},
		"another's members":   {state(second, 0, 0, 1, 2, 4)},
		"a member twice":      {state(second, 0, 0, 1, 2, 2)},
		"delivered is cut":    {first, appendPosition([]byte{recordFinals, 1}, multicast.Position{Final: 7, ID: m.ID}), state(second, 0, 0, 1, 2, 3)},
	} {
		t.Run(name, func(t *testing.T) {
			c := newProc(t, 1)
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
	one := []multicast.Group{group(1, 1)}
	for want, cfg := range map[string]Config{
		"Self is process 0":              {Groups: one},
		"Self is process 9":              {Self: 9, Groups: one},
		"Replaces is process 1":          {Self: 1, Groups: one, Replaces: 1},
		"Replaces is process 8":          {Self: 9, Groups: one, Replaces: 8},
		"Groups[1].ID is 1 again":        {Self: 1, Groups: []multicast.Group{group(1, 1), group(1, 2)}},
		"has 0 processes":                {Self: 1, Groups: []multicast.Group{group(1)}},
		"has 65 processes":               {Self: 1, Groups: []multicast.Group{group(1, make([]multicast.ProcessID, 65)...)}},
		"has process 0":                  {Self: 1, Groups: []multicast.Group{group(1, 0)}},
		"process 1 is in groups 1 and 2": {Self: 1, Groups: []multicast.Group{group(1, 1), group(2, 1)}},
		"SuspectAfter is -1ns":           {Self: 1, Groups: one, SuspectAfter: -1},
		"FetchAfter is -1ns":             {Self: 1, Groups: one, FetchAfter: -1},
		"PackDelay is -1ns":              {Self: 1, Groups: one, PackDelay: -1},
		"Window is -1 messages":          {Self: 1, Groups: one, Window: -1},
		"Retain is -1 bytes":             {Self: 1, Groups: one, Retain: -1},
		"CheckpointMin is -1 bytes":      {Self: 1, Groups: one, CheckpointMin: -1},
	} {
		_, err := New(cfg)
		require.ErrorContains(t, err, want)
	}
}

func TestBadFrameHasNoEffectAtAll(t *testing.T) {
	c := newProc(t, 2)
	out := c.step(multicast.Input{Frames: []multicast.Frame{{Peer: 5, Data: append(encode(startOf(msg(1, 1), 0)), 99)}}})
	require.Empty(t, out.Frames)
	require.EqualValues(t, 1, c.Stats().BadFrames)
	require.Empty(t, said(t, c.hear(1, entryOf(epochG, 1, 1, msg(1, 1))), 1, kindAck), "START was in the bad frame")
}

func TestBadPacketsAreDroppedAndCounted(t *testing.T) {
	next := Epoch{Number: 2, Leader: 2}
	for name, p := range map[string]packet{
		"START for others":            startOf(msg(1, 2), 0),
		"START to no group":           startOf(msg(1, 1, 7), 0),
		"entry of our epoch":          entryOf(epochG, 1, 1, msg(1, both...)),
		"ACK of our epoch":            ackOf(epochG, 1, 1),
		"BUMP of another group":       bumpOf(epochH, 1),
		"NEW-EPOCH of another group":  newEpochOf(Epoch{Number: 2, Leader: 5}),
		"NEW-EPOCH for another":       newEpochOf(next),
		"NEW-STATE of another leader": newStateOf(next, 0, 0, 1),
		"SILENT of another group":     {kind: kindSilent, epoch: next},
		"roster of no group":          {kind: kindRoster, group: 9, roster: roster{since: next, latest: next, ids: []multicast.ProcessID{1, 2, 7}}},
		"roster with our member":      {kind: kindRoster, group: 2, roster: roster{since: next, latest: next, ids: []multicast.ProcessID{1, 5, 6}}},
		"roster with a member twice":  {kind: kindRoster, group: 2, roster: roster{since: next, latest: next, ids: []multicast.ProcessID{4, 5, 5}}},
		"roster without members":      {kind: kindRoster, group: 2, roster: roster{since: next, latest: next}},
		"roster that is not settled":  {kind: kindRoster, group: 2, roster: roster{since: next, latest: next, ids: []multicast.ProcessID{5, 6}, before: groupH.Members}},
	} {
		t.Run(name, func(t *testing.T) {
			c := newProc(t, 2)
			out := c.hear(5, p)
			require.Empty(t, out.Frames)
			require.Empty(t, out.Records)
			require.EqualValues(t, 1, c.Stats().BadPackets)
		})
	}
}

func TestStrangersAreCounted(t *testing.T) {
	c := newProc(t, 2)
	require.Empty(t, c.hear(99, startOf(msg(1, 1), 0)).Frames)
	require.EqualValues(t, 1, c.Stats().Strangers)
}

func TestProposalsThatCannotBeMulticast(t *testing.T) {
	c := newProc(t, 5)
	other := msg(3, 1)
	other.ID.Sender = 1
	far := msg(5, 1)
	far.After = maxNumber
	for _, m := range []*multicast.Message{msg(2, 1), msg(2, 1), other, msg(4), msg(4, 7), far} {
		c.cast(m)
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
