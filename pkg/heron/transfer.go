package heron

import (
	"cmp"
	"hash/crc32"
	"slices"
	"time"

	"github.com/globalfs/globalfs/pkg/multicast"
)

// chunkWindow is the maximum number of chunks that are under way to a lagger.
const chunkWindow = 4

// chunkHeader: checksum and length (4 bytes each), attempt, index, and whether it is the last (8 each).
const chunkHeader = 4 + 4 + 8 + 8 + 8

// encodeChunk returns the bytes of a piece of a state.
func encodeChunk(attempt, index, last uint64, part []byte) []byte {
	b := make([]byte, 8, chunkHeader+len(part))
	le.PutUint32(b[4:], uint32(len(part)))
	b = le.AppendUint64(le.AppendUint64(le.AppendUint64(b, attempt), index), last)
	b = append(b, part...)
	le.PutUint32(b, crc32.Checksum(b[4:], castagnoli))
	return b
}

// transfer is the state transfer that this process waits for.
type transfer struct {
	need  uint64
	since time.Duration
}

// intake is the part of a state that a member has sent.
type intake struct {
	next uint64 // index of the next chunk
	data []byte
}

// lag asks the members of the group for the state after the current request (Algorithm 3, lines 2 to 4).
func (c *Core) lag() {
	c.stats.Lagged++
	c.lagging = &transfer{need: tagOf(&c.current.delivery), since: c.now}
	c.request()
}

// request begins a new attempt.
func (c *Core) request() {
	c.attempts++
	for _, id := range c.group.Members {
		p := c.peers[id]
		p.past = intake{}
		p.want.attempt, p.want.need, p.want.taken = c.attempts, c.lagging.need, 0
	}
}

// receive takes in the chunks that members have sent (lines 5 and 6).
func (c *Core) receive() {
	for _, id := range c.group.Members {
		p := c.peers[id]
		for c.lagging != nil && c.take(p) {
		}
	}
}

// take takes in the next chunk of a member, if it has landed.
func (c *Core) take(p *peer) bool {
	b := make([]byte, c.cfg.ChunkSize)
	c.memory[regionOf(chunkRegion, p.id)].Load(int(p.past.next%chunkWindow)*c.cfg.ChunkSize, b)
	n := int(le.Uint32(b[4:]))
	if n > len(b)-chunkHeader || crc32.Checksum(b[4:chunkHeader+n], castagnoli) != le.Uint32(b) ||
		le.Uint64(b[8:]) != c.attempts || le.Uint64(b[16:]) != p.past.next {
		return false
	}
	p.past.next++
	p.past.data = append(p.past.data, b[chunkHeader:chunkHeader+n]...)
	p.want.taken = p.past.next
	if le.Uint64(b[24:]) == 0 {
		return true
	}
	if s, ok := c.decodeState(p.past.data); ok {
		c.install(s)
	} else {
		c.stats.Malformed++
		c.request()
	}
	return false
}

// state is the state that a lagger takes over.
type state struct {
	last     uint64
	meetings map[multicast.GroupID]meeting
	records  []record
}

// record is an object with its newest version.
type record struct {
	slot int
	id   ObjectID
	version
}

const recordHeader = 4 + 4 + 8 + 8 + 8

// encode returns the bytes of a state. The groups are those of the configuration, in its order.
func (s *state) encode(groups []multicast.Group) []byte {
	b := le.AppendUint64(nil, s.last)
	for i := range groups {
		m := s.meetings[groups[i].ID]
		executed := uint64(0)
		if m.executed {
			executed = 1
		}
		b = le.AppendUint64(le.AppendUint64(le.AppendUint64(b, m.count), m.place), executed)
	}
	for _, r := range s.records {
		b = le.AppendUint32(le.AppendUint32(b, uint32(r.slot)), uint32(len(r.value)))
		b = le.AppendUint64(le.AppendUint64(le.AppendUint64(b, uint64(r.id)), r.tag), r.prev)
		b = append(b, r.value...)
	}
	return b
}

// decodeState returns a state that this process can take over. The records are in the order of their tags.
func (c *Core) decodeState(b []byte) (s state, ok bool) {
	if len(b) < 8+24*len(c.cfg.Groups) {
		return state{}, false
	}
	s = state{last: le.Uint64(b), meetings: map[multicast.GroupID]meeting{}}
	if s.last < c.lagging.need {
		return state{}, false
	}
	b = b[8:]
	for i := range c.cfg.Groups {
		id := c.cfg.Groups[i].ID
		m := meeting{count: le.Uint64(b), place: le.Uint64(b[8:]), executed: le.Uint64(b[16:]) == 1}
		if m.count < c.meetings[id].count {
			return state{}, false
		}
		s.meetings[id] = m
		b = b[24:]
	}
	for len(b) > 0 {
		if len(b) < recordHeader {
			return state{}, false
		}
		r := record{slot: int(le.Uint32(b)), id: ObjectID(le.Uint64(b[8:]))}
		r.tag, r.prev = le.Uint64(b[16:]), le.Uint64(b[24:])
		n := int(le.Uint32(b[4:]))
		if n > c.cfg.ObjectSize || n > len(b)-recordHeader || r.tag > s.last || !c.acceptable(&r, len(s.records), s.records) {
			return state{}, false
		}
		r.value = slices.Clone(b[recordHeader : recordHeader+n])
		s.records = append(s.records, r)
		b = b[recordHeader+n:]
	}
	return s, true
}

// acceptable reports whether a record fits to the slots of this process and to the records before it: known
// objects keep their slots, and new ones have the next slots.
func (c *Core) acceptable(r *record, n int, before []record) bool {
	if n > 0 && before[n-1].slot >= r.slot {
		return false
	}
	if r.slot < len(c.objects.ids) {
		return c.objects.ids[r.slot] == r.id
	}
	next := len(c.objects.ids)
	if n > 0 && before[n-1].slot >= next {
		next = before[n-1].slot + 1
	}
	_, known := c.objects.slots[r.id]
	return !known && r.slot == next && r.slot < c.cfg.Objects && c.cfg.App.Owner(r.id) == c.group.ID
}

// install takes over a state (line 6).
func (c *Core) install(s state) {
	for _, r := range s.records {
		c.objects.slot(r.id)
	}
	slices.SortStableFunc(s.records, func(a, b record) int { return cmp.Compare(a.tag, b.tag) })
	for _, r := range s.records {
		if r.tag > c.objects.newest(r.id).tag {
			c.objects.put(r.slot, r.version)
		}
	}
	c.last, c.meetings = s.last, s.meetings
	c.stats.Transfers += c.now - c.lagging.since
	c.lagging, c.current = nil, nil
	for _, id := range c.group.Members {
		p := c.peers[id]
		p.want.need, p.past = 0, intake{}
	}
}
