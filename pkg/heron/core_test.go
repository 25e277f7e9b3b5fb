package heron

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/pkg/fabric"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// plain is memory of a test.
type plain []byte

func (m plain) Size() int                 { return len(m) }
func (m plain) Load(at int, into []byte)  { copy(into, m[at:at+len(into)]) }
func (m plain) Store(at int, data []byte) { copy(m[at:], data) }

// sums is an application: a request to groups 1 and 2 adds object 1 (of group 1) and object 2 (of group 2),
// and each group writes the sum and one more into its own object.
type sums struct{}

func (sums) Owner(id ObjectID) multicast.GroupID { return multicast.GroupID(id) }

func (sums) Reads(multicast.GroupID, []byte) []ObjectID { return []ObjectID{1, 2} }

func (sums) Execute(group multicast.GroupID, _ []byte, get func(ObjectID) []byte) ([]Write, []byte) {
	sum := byte(1)
	for id := range ObjectID(3) {
		if v := get(id); v != nil {
			sum += v[0]
		}
	}
	return []Write{{ID: ObjectID(group), Value: []byte{sum}}}, []byte{sum}
}

// bed is a core with two groups of three; the others are played by the test.
type bed struct {
	*Core
	t   *testing.T
	at  time.Duration
	out Output
}

func newBed(t *testing.T) *bed {
	c, err := New(Config{
		Self: 11, Groups: []multicast.Group{{ID: 1, Members: []multicast.ProcessID{11, 12, 13}}, {ID: 2, Members: []multicast.ProcessID{21, 22, 23}}},
		App: sums{}, Objects: 8, ObjectSize: 16, ChunkSize: 256,
	})
	require.NoError(t, err)
	for _, r := range c.Regions() {
		c.Attach(r.ID, make(plain, r.Size))
	}
	b := &bed{Core: c, t: t}
	b.step(Input{})
	return b
}

func (b *bed) step(in Input) {
	b.at += time.Microsecond
	in.Now = b.at
	b.out.Reset()
	b.Step(&in, &b.out)
}

// deliver gives a request at a place of the log.
func (b *bed) deliver(place multicast.Timestamp, dest ...multicast.GroupID) {
	b.step(Input{Deliveries: []multicast.Delivery{{
		Message: multicast.Message{ID: multicast.MessageID{Sender: 1, Seq: uint64(place)}, Dest: dest}, Final: place,
	}}})
}

// tell plays the note of a process.
func (b *bed) tell(p multicast.ProcessID, n note) {
	b.memory[regionOf(noteRegion, p)].Store(0, n.encode())
	b.step(Input{})
}

// reachedAt returns the note of a process that has reached the first common request, at a place of its
// group's log.
func reachedAt(place uint64) note { return note{meeting: meeting{count: 1, place: place}} }

// end completes the operations of the last step, reads with data.
func (b *bed) end(data []byte) {
	var in Input
	for _, op := range b.out.Ops {
		c := fabric.Completion{Token: op.Token, Kind: op.Kind, Peer: op.Peer, Region: op.Region}
		if op.Kind == fabric.Read {
			c.Data = data
		}
		in.Completions = append(in.Completions, c)
	}
	b.step(in)
}

// TestAlone covers lines 5 to 7 of Algorithm 1.
func TestAlone(t *testing.T) {
	b := newBed(t)
	b.deliver(0, 1)
	require.Len(t, b.out.Responses, 1)
	require.Equal(t, []byte{1}, b.out.Responses[0].Body)
	require.Empty(t, b.out.Ops, "a request to one group concerns no other process")
	require.Equal(t, []byte{1}, b.Get(1))
}

// TestCoordination covers lines 8 to 21 of Algorithm 1, and all of Algorithm 2.
func TestCoordination(t *testing.T) {
	b := newBed(t)
	b.deliver(4, 1, 2)
	require.Len(t, b.out.Ops, 5, "lines 8 and 9: a note for each other process")
	b.tell(12, reachedAt(4))
	b.tell(21, reachedAt(9))
	require.Equal(t, gathering, b.current.phase, "line 10: one of three is no quorum of group 2")
	b.tell(22, reachedAt(9))
	require.Equal(t, fetching, b.current.phase)
	asked := b.peers[21]
	if asked.want.ask == 0 {
		asked = b.peers[22]
	}
	require.Equal(t, ObjectID(2), asked.want.wanted[0], "lines 8 to 10 of Algorithm 2")
	answered := reachedAt(9)
	answered.answered, answered.slots[0] = asked.want.ask, 6
	b.tell(asked.id, answered)
	var read *fabric.Op
	for i := range b.out.Ops {
		if b.out.Ops[i].Kind == fabric.Read {
			read = &b.out.Ops[i]
		}
	}
	require.NotNil(t, read, "line 19 of Algorithm 2")
	require.Equal(t, 5*b.cfg.slotSize(), read.At)
	require.Equal(t, fabric.NodeID(asked.id), read.Peer)
	newer, older := version{tag: 10, prev: 3, value: []byte{99}}, version{tag: 3, value: []byte{40}}
	slot := make([]byte, b.cfg.slotSize())
	le.PutUint64(slot, 2)
	copy(slot[slotHeader:], newer.encode(2))
	copy(slot[slotHeader+b.cfg.versionSize():], older.encode(2))
	b.end(slot)
	require.Equal(t, []byte{41}, b.Get(1), "line 22: the request itself has written 99, at place 9")
	require.Empty(t, b.out.Responses, "line 17: nobody else has executed the request")
	done := reachedAt(9)
	done.executed = true
	b.tell(21, done)
	b.tell(12, note{meeting: meeting{count: 2, place: 5}})
	require.Empty(t, b.out.Responses, "two of group 1, one of group 2")
	b.tell(23, note{meeting: meeting{count: 2, place: 11}})
	require.Len(t, b.out.Responses, 1, "line 20: a process past the request has executed it")
	require.Equal(t, []byte{41}, b.out.Responses[0].Body)
}

// TestLagger covers lines 23 to 25 of Algorithm 2, and Algorithm 3.
func TestLagger(t *testing.T) {
	lagger, helper := newBed(t), newBed(t)
	lagger.deliver(4, 1, 2)
	lagger.tell(12, note{meeting: meeting{count: 2, place: 6}})
	lagger.tell(21, note{meeting: meeting{count: 2, place: 12}})
	lagger.tell(22, note{meeting: meeting{count: 2, place: 12}})
	require.NotNil(t, lagger.lagging, "all are past the request: nobody tells its place in the log of group 2")
	require.Equal(t, uint64(5), lagger.peers[12].want.need, "lines 2 to 4 of Algorithm 3")

	helper.deliver(3, 1)
	helper.meetings[1], helper.meetings[2] = meeting{2, 6, true}, meeting{2, 6, true}
	helper.deliver(7, 1)
	state := helper.collect(5)
	b := encodeChunk(lagger.attempts, 0, 1, state)
	lagger.memory[regionOf(chunkRegion, 12)].Store(0, b)
	lagger.deliver(6, 1, 2)
	require.Nil(t, lagger.lagging, "line 5 of Algorithm 3")
	require.Equal(t, uint64(8), lagger.last, "line 6")
	require.Equal(t, []byte{2}, lagger.Get(1))
	require.Zero(t, lagger.Pending(), "lines 3 and 4 of Algorithm 1: place 6 is covered")
	require.Zero(t, lagger.peers[12].want.need)
	lagger.deliver(8, 1)
	require.Equal(t, []byte{3}, lagger.Get(1))
}

// FuzzState: remote memory never makes a lagger panic, and nothing that does not fit is installed.
func FuzzState(f *testing.F) {
	f.Add([]byte{})
	f.Add((&state{last: 9, meetings: map[multicast.GroupID]meeting{1: {1, 4, true}, 2: {1, 4, true}}, records: []record{
		{slot: 0, id: 1, version: version{tag: 9, prev: 2, value: []byte{5}}},
	}}).encode([]multicast.Group{{ID: 1}, {ID: 2}}))
	f.Fuzz(func(t *testing.T, data []byte) {
		b := newBed(t)
		b.deliver(4, 1, 2)
		b.lag()
		if s, ok := b.decodeState(data); ok {
			b.install(s)
			require.GreaterOrEqual(t, b.last, uint64(5))
		}
	})
}

// TestHelperQualifies: a process that has not executed the lagger's request does not help (T1), and the next
// member waits for a while before it does.
func TestHelperQualifies(t *testing.T) {
	b := newBed(t)
	b.deliver(3, 1)
	b.tell(12, note{attempt: 1, need: 5})
	b.at += time.Second
	b.step(Input{})
	require.Zero(t, b.stats.Helped)
	b.deliver(4, 1)
	require.Equal(t, 1, b.stats.Helped)
	b.tell(13, note{attempt: 1, need: 5})
	require.Equal(t, 2, b.stats.Helped, "process 11 is the first after 13")

	b = newBed(t)
	b.deliver(9, 1)
	b.tell(12, note{attempt: 1, need: 5})
	require.Zero(t, b.stats.Helped, "process 13 is the first after 12")
	b.at += b.cfg.HelpAfter
	b.step(Input{})
	require.Equal(t, 1, b.stats.Helped)
}
