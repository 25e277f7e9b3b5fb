package tram

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/pkg/fabric"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// testGroups returns a root 1 with the children 2 and 3, and 4 below 2.
func testGroups() ([]multicast.Group, map[multicast.GroupID]multicast.GroupID) {
	var groups []multicast.Group
	for g := range multicast.GroupID(4) {
		first := multicast.ProcessID(10 * (g + 1))
		groups = append(groups, multicast.Group{ID: g + 1, Members: []multicast.ProcessID{first, first + 1, first + 2}})
	}
	return groups, map[multicast.GroupID]multicast.GroupID{2: 1, 3: 1, 4: 2}
}

func TestTree(t *testing.T) {
	groups, parents := testGroups()
	tree, err := newTree(groups, parents)
	require.NoError(t, err)
	for want, dests := range map[multicast.GroupID][][]multicast.GroupID{
		1: {{1}, {1, 4}, {2, 3}, {3, 4}, {1, 2, 3, 4}},
		2: {{2}, {2, 4}},
		3: {{3}},
		4: {{4}},
	} {
		for _, dest := range dests {
			require.Equal(t, want, tree.lca(dest).ID, "%v", dest)
		}
	}
	require.Nil(t, tree.lca([]multicast.GroupID{1, 9}))
	require.True(t, tree.reaches(tree.groups[2], []multicast.GroupID{4}))
	require.False(t, tree.reaches(tree.groups[3], []multicast.GroupID{2, 4}))
}

func TestConfigNamesTheWrongField(t *testing.T) {
	for want, change := range map[string]func(*Config){
		"Slots":                   func(c *Config) { c.Slots = 3 },
		"SlotSize":                func(c *Config) { c.SlotSize = 130 },
		"Keep":                    func(c *Config) { c.Keep = 10 },
		"SuspectAfter":            func(c *Config) { c.SuspectAfter = -1 },
		"Self":                    func(c *Config) { c.Self = 99 },
		"0 members":               func(c *Config) { c.Groups[0].Members = nil },
		"number of its own":       func(c *Config) { c.Groups[0].Members = []multicast.ProcessID{11, 20} },
		"two groups":              func(c *Config) { c.Groups[1].ID = 1 },
		"which is no group":       func(c *Config) { c.Parents[4] = 9 },
		"its own ancestor":        func(c *Config) { c.Parents[2] = 4 },
		"2 groups have no parent": func(c *Config) { delete(c.Parents, 3) },
	} {
		groups, parents := testGroups()
		cfg := Config{Self: 11, Groups: groups, Parents: parents}
		_, err := New(cfg)
		require.NoError(t, err)
		change(&cfg)
		_, err = New(cfg)
		require.ErrorContains(t, err, want)
	}
}

// owned is memory without others.
type owned []byte

func (o owned) Size() int                { return len(o) }
func (o owned) Load(at int, into []byte) { copy(into, o[at:at+len(into)]) }
func (o owned) Store(at int, b []byte)   { copy(o[at:], b) }

func newTestCore(t *testing.T, self multicast.ProcessID) *Core {
	groups, parents := testGroups()
	c, err := New(Config{Self: self, Groups: groups, Parents: parents, SlotSize: 256})
	require.NoError(t, err)
	for _, r := range c.Regions() {
		c.Attach(r.ID, make(owned, r.Size))
	}
	return c
}

func step(c *Core, in Input) *Output {
	out := &Output{}
	c.Step(&in, out)
	return out
}

func message(sender multicast.ProcessID, seq uint64, dest ...multicast.GroupID) multicast.Message {
	return multicast.Message{ID: multicast.MessageID{Sender: sender, Seq: seq}, Dest: dest, Payload: []byte("x")}
}

// TestClient covers Algorithm 1. A message goes into the same slot at all replicas of the lca, and to no
// other process. A message that is proposed again gets no second slot.
func TestClient(t *testing.T) {
	c := newTestCore(t, 30)
	out := step(c, Input{Proposed: []multicast.Message{message(30, 1, 2, 4), message(30, 1, 2, 4), message(30, 2, 4), message(99, 3, 4)}})
	to := map[fabric.NodeID]int{}
	for _, op := range out.Ops {
		require.Equal(t, regionOf(clientRegion, 30), op.Region)
		require.Equal(t, c.cfg.place(1), op.At)
		to[op.Peer]++
	}
	require.Equal(t, map[fabric.NodeID]int{20: 1, 21: 1, 22: 1, 40: 1, 41: 1, 42: 1}, to)
	require.Equal(t, 1, c.Stats().Malformed)
	require.Equal(t, 2, c.Pending())
}

// A message must fit into a slot.
func TestMessageMustFit(t *testing.T) {
	c := newTestCore(t, 30)
	m := message(30, 1, 3)
	for m.Payload = nil; c.Validate(&m) == nil; m.Payload = append(m.Payload, 0) {
		require.Less(t, len(m.Payload), 256)
	}
	m.Payload = m.Payload[1:]
	e := entry{from: 30, index: 1, children: make([]childPosition, 2), message: m}
	e.encode(1)
	require.LessOrEqual(t, len(e.slot), 256)
	require.Greater(t, len(m.Payload), 150)
}

// TestHostileInputs: a leader orders nothing that does not belong into an input.
func TestHostileInputs(t *testing.T) {
	c := newTestCore(t, 20)
	step(c, Input{})
	put := func(id fabric.RegionID, m multicast.Message) {
		c.memory[id].Store(c.cfg.place(1), seal(1, appendMessage(nil, &m)))
	}
	put(regionOf(clientRegion, 30), message(31, 1, 2))     // of another client
	put(regionOf(clientRegion, 31), message(31, 1, 1, 2))  // the lca is another group
	put(regionOf(clientRegion, 32), message(32, 1, 2, 77)) // no such group
	put(regionOf(parentRegion, 10), message(12, 1, 2))     // need not come through the parent
	put(regionOf(parentRegion, 11), message(12, 1, 1, 3))  // not on the way
	require.Empty(t, step(c, Input{}).Ops)
	put(regionOf(parentRegion, 12), message(12, 1, 1, 4))
	require.Len(t, step(c, Input{}).Ops, 3, "one write to each member")
}

// A process believes a note only about its sender. It grants no right to a member that is not the sender, or
// that does not exist.
func TestHostileNotes(t *testing.T) {
	c := newTestCore(t, 21)
	require.NotEmpty(t, step(c, Input{}).Rights)
	for _, ask := range []uint32{timestamp(9, 1), timestamp(9, 0), timestamp(9, 200)} {
		c.memory[regionOf(noteRegion, 22)].Store(0, (&note{ask: ask}).encode())
		require.Empty(t, step(c, Input{}).Rights)
	}
	c.memory[regionOf(noteRegion, 22)].Store(0, (&note{ask: timestamp(9, 2)}).encode())
	require.Equal(t, []fabric.Right{
		{Region: logRegion, Peer: 20, Rights: fabric.Writable, Revoke: true},
		{Region: logRegion, Peer: 22, Rights: fabric.Writable},
	}, step(c, Input{}).Rights)
	c.memory[regionOf(noteRegion, 20)].Store(0, (&note{ask: timestamp(8, 0), taken: 1 << 60, fromUp: 1 << 60}).encode())
	require.Empty(t, step(c, Input{}).Rights, "the timestamp is lower")
}

// The highest possible timestamp prevents a change of leaders, and stops no process.
func TestHostileRound(t *testing.T) {
	c := newTestCore(t, 21)
	m := message(30, 1, 2)
	c.memory[regionOf(clientRegion, 30)].Store(c.cfg.place(1), seal(1, appendMessage(nil, &m)))
	c.memory[regionOf(noteRegion, 22)].Store(0, (&note{promised: 1<<32 - 1}).encode())
	out := step(c, Input{})
	require.NotZero(t, out.Wake)
	step(c, Input{Now: time.Minute})
	require.Zero(t, c.Stats().Campaigns)
	require.Positive(t, c.Stats().Malformed)
	c.memory[regionOf(noteRegion, 22)].Store(0, (&note{}).encode())
	step(c, Input{Now: 2 * time.Minute})
	require.Equal(t, 1, c.Stats().Campaigns)
}

func TestStepNeedsItsMemory(t *testing.T) {
	groups, parents := testGroups()
	c, err := New(Config{Self: 10, Groups: groups, Parents: parents})
	require.NoError(t, err)
	require.PanicsWithValue(t, ErrNotAttached, func() { step(c, Input{}) })
}
