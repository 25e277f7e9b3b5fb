package tram

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/pkg/fabric"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// reborn is process 40, the first member of its group, with a log.
func rebornCore(t *testing.T, life uint32, change func(*Config), records ...[]byte) *Core {
	groups, parents := testGroups()
	cfg := Config{Self: 40, Groups: groups, Parents: parents, SlotSize: 256, Sync: true, Life: life}
	if change != nil {
		change(&cfg)
	}
	c, err := New(cfg)
	require.NoError(t, err)
	for _, r := range records {
		require.NoError(t, c.Replay(r))
	}
	for _, r := range c.Regions() {
		c.Attach(r.ID, make(owned, r.Size))
	}
	return c
}

// put writes an entry into the log of a process, as the leader with a timestamp does.
func put(c *Core, n uint64, ts uint32, e entry) {
	e.encode(n)
	c.memory[logRegion].Store(headerSize+c.cfg.place(n), stamped(e.slot, ts))
}

func commit(c *Core, n uint64) { c.memory[logRegion].Store(0, le.AppendUint64(nil, n)) }

// TestRestart: the entries that a process held before it stopped are in its memory again, with their
// timestamps. Those of its state machine are not delivered again, and a process that led does not lead any
// more.
func TestRestart(t *testing.T) {
	c := rebornCore(t, 0, nil)
	out := step(c, Input{})
	log := out.Records
	require.True(t, c.Leads())
	for i := range uint64(3) {
		put(c, i+1, timestamp(1, 0), from(30, i+1, i+1))
	}
	out = step(c, Input{})
	require.Len(t, out.Records, 3)
	require.True(t, out.Sync)
	require.Equal(t, uint64(3), c.stored)
	log = append(log, out.Records...)

	at := multicast.UpTo(multicast.Position{Final: 2, ID: multicast.MessageID{Sender: 30, Seq: 2}})
	c = rebornCore(t, 1, func(cfg *Config) { cfg.Delivered = at }, log...)
	out = step(c, Input{})
	require.False(t, c.Leads())
	require.Empty(t, out.Deliveries)
	require.Equal(t, uint64(2), c.ledger.applied)
	require.Equal(t, uint64(3), c.stored)
	_, ts, ok := decodeEntry(c.slot(logRegion, headerSize, 3), 3)
	require.True(t, ok)
	require.Equal(t, timestamp(1, 0), ts)
	commit(c, 3)
	require.Len(t, step(c, Input{}).Deliveries, 1)
}

// TestStoredIsOfTheLeader: entries of an earlier leader are not stored for the present one.
func TestStoredIsOfTheLeader(t *testing.T) {
	c := rebornCore(t, 0, nil)
	step(c, Input{})
	put(c, 1, timestamp(1, 0), from(30, 1, 1))
	step(c, Input{})
	require.Equal(t, uint64(1), c.stored)
	c.memory[regionOf(noteRegion, 41)].Store(0, (&note{ask: timestamp(2, 1)}).encode())
	step(c, Input{})
	require.Equal(t, timestamp(2, 1), c.promised)
	require.Zero(t, c.stored)
	put(c, 1, timestamp(2, 1), from(30, 1, 1))
	step(c, Input{})
	require.Equal(t, uint64(1), c.stored)
}

// In mode sync, a leader counts the entries that members have reported as stored, and not its completed
// writes.
func TestDecidedIsStored(t *testing.T) {
	c := rebornCore(t, 0, nil)
	step(c, Input{})
	e := from(30, 1, 1)
	e.encode(1)
	c.ledger.push(&e)
	for _, m := range c.members {
		m.done = 1
	}
	c.decide()
	require.Zero(t, c.decided)
	c.peers[41].received.stored, c.peers[42].received.stored = 1, 1
	c.peers[42].received.lost = true
	c.decide()
	require.Zero(t, c.decided, "a lost process has no vote")
	c.peers[40].received.stored = 1
	c.decide()
	require.Equal(t, uint64(1), c.decided)
}

// A process that has lost memory grants only timestamps of candidates that know of its loss. It has a vote
// again when it holds the log of that term (L2, L3).
func TestLostProcessGrants(t *testing.T) {
	c := rebornCore(t, 3, func(cfg *Config) { cfg.Amnesiac = true })
	step(c, Input{})
	require.True(t, c.Amnesiac())
	ask := note{ask: timestamp(2, 1)}
	c.memory[regionOf(noteRegion, 41)].Store(0, ask.encode())
	require.Empty(t, step(c, Input{}).Rights)
	ask.askFor = 3
	c.memory[regionOf(noteRegion, 41)].Store(0, ask.encode())
	require.NotEmpty(t, step(c, Input{}).Rights)
	put(c, 1, timestamp(2, 1), from(30, 1, 1))
	c.memory[logRegion].Store(startWord, le.AppendUint64(nil, 2+1))
	step(c, Input{})
	require.True(t, c.Amnesiac())
	put(c, 2, timestamp(2, 1), from(30, 2, 2))
	out := step(c, Input{})
	require.False(t, c.Amnesiac())
	require.NotEmpty(t, out.Records)
	log := append([][]byte{}, out.Records...)
	c = rebornCore(t, 4, nil, log...)
	step(c, Input{})
	require.False(t, c.Amnesiac(), "it is on disk that it has a vote again")
}

// TestVoidGrant: a grant of a process that has lost its memory since does not count (L4).
func TestVoidGrant(t *testing.T) {
	c := standing(t, 3)
	require.True(t, c.mayLead())
	c.members[2].image = nil
	require.True(t, c.mayLead())
	c.memory[regionOf(noteRegion, 42)].Store(0, (&note{losses: [maxMembers]uint32{0, 1}}).encode())
	c.readNotes()
	require.False(t, c.mayLead(), "one member of two has forgotten what it has granted")
}

// TestCheckpoint: a checkpoint replaces all records. A process that restarts from the checkpoint has the same
// state as one that restarts from all records.
func TestCheckpoint(t *testing.T) {
	c := rebornCore(t, 0, func(cfg *Config) { cfg.CheckpointMin = 1 })
	step(c, Input{})
	for i := range uint64(5) {
		put(c, i+1, timestamp(1, 0), from(30, i+1, i+1))
	}
	c.stepDown()
	commit(c, 4)
	step(c, Input{})
	at := multicast.UpTo(multicast.Position{Final: 3, ID: multicast.MessageID{Sender: 30, Seq: 3}})
	step(c, Input{Covered: at})
	c.ledger.trim(3)
	next := rebornCore(t, 1, func(cfg *Config) { cfg.Delivered = at }, c.Checkpoint())
	out := step(next, Input{})
	require.Len(t, out.Deliveries, 1)
	require.Equal(t, uint64(4), next.ledger.applied)
	require.Equal(t, uint64(5), next.stored)
	require.Empty(t, out.Behind)
	next = rebornCore(t, 1, nil, c.Checkpoint())
	require.NotEmpty(t, step(next, Input{}).Behind, "the log does not hold any more what the state machine lacks")
}

// A process adopts a state that has all entries that it needs, and keeps its own entries behind that state.
func TestAdopt(t *testing.T) {
	c := rebornCore(t, 0, nil)
	step(c, Input{})
	c.stepDown()
	for i := range uint64(3) {
		put(c, i+1, timestamp(1, 0), from(30, i+1, i+1))
	}
	commit(c, 2)
	step(c, Input{})
	state := c.State()

	other := rebornCore(t, 1, nil)
	step(other, Input{})
	put(other, 3, timestamp(1, 0), from(30, 3, 3))
	other.vote(3, timestamp(1, 0), func() []byte { e := from(30, 3, 3); e.encode(3); return e.slot }())
	record, at, err := other.Adopt(state)
	require.NoError(t, err)
	require.Equal(t, multicast.Timestamp(2), at.Of("").Final)
	again := rebornCore(t, 2, func(cfg *Config) { cfg.Delivered = at }, record)
	step(again, Input{})
	require.Equal(t, uint64(2), again.ledger.applied)
	require.Equal(t, uint64(3), again.stored)
	other.needsState = 3
	_, _, err = other.Adopt(state)
	require.ErrorContains(t, err, "ask another member")
}

// TestHostileRecords: a damaged record is an error, and no panic.
func TestHostileRecords(t *testing.T) {
	c := rebornCore(t, 0, nil)
	out := step(c, Input{})
	c.stepDown()
	put(c, 1, timestamp(1, 0), from(30, 1, 1))
	commit(c, 1)
	records := append(out.Records, step(c, Input{}).Records...)
	records = append(records, c.Checkpoint())
	rng := rand.New(rand.NewPCG(5, 6))
	for range 1000 {
		b := append([]byte{}, records[rng.IntN(len(records))]...)
		b = b[:rng.IntN(len(b)+1)]
		if len(b) > 1 {
			b[rng.IntN(len(b))] ^= byte(1 << rng.IntN(8))
		}
		fresh := rebornCore(t, 9, nil)
		if fresh.Replay(b) == nil {
			step(fresh, Input{})
		}
		_, _, _ = fresh.Adopt(b)
	}
	groups, parents := testGroups()
	c, err := New(Config{Self: 40, Groups: groups, Parents: parents, SlotSize: 256, Sync: true})
	require.NoError(t, err)
	require.ErrorContains(t, c.Replay(records[0]), "Life 0")
}

// TestSeats: the rights of the node that ran a process before go, and the process that has lost its seat
// stops.
func TestSeats(t *testing.T) {
	c := rebornCore(t, 0, nil)
	step(c, Input{})
	out := step(c, Input{Seats: []Seat{{Process: 41, Life: 1, Node: 99}, {Process: 77, Life: 1, Node: 98}}})
	require.Equal(t, 1, c.Stats().Malformed)
	revoked, granted := 0, 0
	for _, r := range out.Rights {
		if r.Revoke {
			require.EqualValues(t, 41, r.Peer)
			revoked++
		} else {
			require.EqualValues(t, 99, r.Peer)
			granted++
		}
	}
	require.Equal(t, 4, revoked)
	require.Equal(t, 3, granted, "nobody has asked it for the right to write the log")
	require.True(t, step(c, Input{Seats: []Seat{{Process: 40, Life: 1, Node: 97}}}).Retired)
	out = step(c, Input{Proposed: []multicast.Message{message(40, 1, 4)}})
	require.True(t, out.Retired)
	require.Empty(t, out.Ops)
}

// TestPromiseIsRecorded: a promise is recorded before another process learns of it.
func TestPromiseIsRecorded(t *testing.T) {
	c := rebornCore(t, 0, nil)
	log := step(c, Input{}).Records
	c.memory[regionOf(noteRegion, 41)].Store(0, (&note{ask: timestamp(2, 1)}).encode())
	log = append(log, step(c, Input{}).Records...)
	c = rebornCore(t, 1, nil, log...)
	require.Equal(t, timestamp(2, 1), c.promised)
}

// An entry that this process has applied is in its records (S4), even if the other processes have decided the
// entry before this process has stored it.
func TestAppliedIsRecorded(t *testing.T) {
	c := rebornCore(t, 0, nil)
	log := step(c, Input{}).Records
	e := from(30, 1, 1)
	e.encode(1)
	c.ledger.push(&e)
	for _, p := range []multicast.ProcessID{41, 42} {
		c.memory[regionOf(noteRegion, p)].Store(0, (&note{stored: 1}).encode())
	}
	out := step(c, Input{})
	require.Len(t, out.Deliveries, 1)
	at := multicast.UpTo(out.Deliveries[0].Position())
	next := rebornCore(t, 1, func(cfg *Config) { cfg.Delivered = at }, append(log, out.Records...)...)
	step(next, Input{})
	require.Equal(t, uint64(1), next.ledger.applied)
}

// TestRestartFarBehind: the state machine and the last checkpoint are further behind than a ring is long. All
// entries that the process had reported are in its memory again (S3).
func TestRestartFarBehind(t *testing.T) {
	small := func(cfg *Config) { cfg.Self, cfg.Slots = 41, 4 }
	c := rebornCore(t, 0, small)
	log := step(c, Input{}).Records
	for n := range uint64(10) {
		put(c, n+1, timestamp(1, 0), from(30, n+1, n+1))
		log = append(log, step(c, Input{}).Records...)
		commit(c, n)
		log = append(log, step(c, Input{}).Records...)
	}
	require.Equal(t, uint64(10), c.stored)

	c = rebornCore(t, 1, small, log...)
	out := step(c, Input{})
	require.Equal(t, uint64(10), c.stored)
	require.Len(t, out.Deliveries, 6, "an entry in the slot of an earlier one shows that the earlier one is decided")
	for n := uint64(7); n <= 10; n++ {
		_, ts, ok := decodeEntry(c.slot(logRegion, headerSize, n), n)
		require.True(t, ok, "entry %d", n)
		require.Equal(t, timestamp(1, 0), ts)
	}
}

// The log determines the number of the life, and only the first life leads from the beginning.
func TestSuccessive(t *testing.T) {
	successive := func(cfg *Config) { cfg.Successive = true }
	c := rebornCore(t, 0, successive)
	log := step(c, Input{}).Records
	require.True(t, c.Leads())
	require.Zero(t, c.Life())
	for life := uint32(1); life < 4; life++ {
		c = rebornCore(t, 0, successive, log...)
		out := step(c, Input{Proposed: []multicast.Message{message(40, uint64(life), 4)}})
		require.Equal(t, life, c.Life())
		require.False(t, c.Leads())
		for _, op := range out.Ops {
			require.Equal(t, fabric.Reset, op.Kind, "nothing lands before all of the earlier lives has ended")
		}
		require.NotEmpty(t, out.Ops)
		log = append(log, out.Records...)
	}
	c = rebornCore(t, 1<<16, successive, log...)
	require.EqualValues(t, 1<<16, c.Life(), "the configuration has the least one")
	require.ErrorContains(t, mustReplay(t, maxLife, log[len(log)-1]), "above that of all earlier lives")
}

// mustReplay replays the record of a life in a core that can have no later one.
func mustReplay(t *testing.T, life uint32, record []byte) error {
	c := rebornCore(t, life, func(cfg *Config) { cfg.Successive = true })
	le.PutUint32(record[1:], life)
	return c.Replay(record)
}

// TestRedeliver: entries that the state machine already has are delivered again, as far as the log has them.
func TestRedeliver(t *testing.T) {
	c := rebornCore(t, 0, nil)
	log := step(c, Input{}).Records
	for n := range uint64(3) {
		put(c, n+1, timestamp(1, 0), from(30, n+1, n+1))
	}
	log = append(log, step(c, Input{}).Records...)
	at := multicast.UpTo(multicast.Position{Final: 2, ID: multicast.MessageID{Sender: 30, Seq: 2}})
	c = rebornCore(t, 1, func(cfg *Config) { cfg.Delivered, cfg.Redeliver = at, true }, log...)
	require.Len(t, step(c, Input{}).Deliveries, 2)
	require.Equal(t, at.Of(""), c.delivered)
	commit(c, 3)
	require.Len(t, step(c, Input{}).Deliveries, 1)
	require.EqualValues(t, 3, c.delivered.Final)
}

// TestFormerNodeAsks: a node whose seat another node has taken over does not lead any more, also if only a
// third process has reported the replacement (L6).
func TestFormerNodeAsks(t *testing.T) {
	c := rebornCore(t, 0, nil)
	step(c, Input{})
	losses := [maxMembers]uint32{1: 5}
	c.memory[regionOf(noteRegion, 42)].Store(0, (&note{losses: losses}).encode())
	c.memory[regionOf(noteRegion, 41)].Store(0, (&note{life: 4, ask: timestamp(2, 1)}).encode())
	step(c, Input{})
	require.NotEqual(t, timestamp(2, 1), c.promised)
	c.memory[regionOf(noteRegion, 41)].Store(0, (&note{life: 5, ask: timestamp(2, 1)}).encode())
	step(c, Input{})
	require.Equal(t, timestamp(2, 1), c.promised)
}
