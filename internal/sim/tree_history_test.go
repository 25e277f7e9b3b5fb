package sim

import (
	"encoding/binary"

	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/varint"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// history is the observations of a run. Its clock counts observations.
type history struct {
	clock   int
	changes []*change // by number
	events  []happening
	bySeq   map[updateName]*change
	byMade  map[posix.Ino]*change // of inodes that they have named in another partition
	byID    map[multicast.MessageID]*crossing
}

func newHistory() history {
	return history{bySeq: map[updateName]*change{}, byMade: map[posix.Ino]*change{}, byID: map[multicast.MessageID]*crossing{}}
}

func (h *history) tick() int {
	h.clock++
	return h.clock
}

// updateName is the name of an update at replicas: the partition that received it, the session and its
// number.
type updateName struct {
	partition    uint16
	session, seq uint64
}

// change is an update that a client sent.
type change struct {
	number   int
	client   int
	command  meta.Command
	dest     []uint16 // nil: only the partition asked
	asked    uint16
	session  uint64 // there
	issued   int    // clock
	answered int
	result   meta.Result
	count    uint64    // the place in the order of the partition asked
	at       int       // the clock when the effect was first seen
	crossing *crossing // with several partitions that voted
	made     uint64    // the place, in the order of another partition, where that partition made the inode

	gaveUp   bool // its client did not wait for the answer
	withdrew bool // some replica has learned that its client did not wait
	// Its session ended before its client was answered, so it may have taken effect, or may later.
	doubt    bool
	observed meta.Result // the answer that replicas have stored, once it has taken effect
}

// crossing is a place in the order between partitions, with the first observed decision of each party there.
type crossing struct {
	at    int
	count map[uint16]uint64 // in each party's own order
}

// effect gives the place of u in the order of a partition, if it had effect there.
func (u *change) effect(partition uint16) (count uint64, ok bool) {
	if u.crossing != nil {
		count, ok = u.crossing.count[partition]
		return count, ok
	}
	if u.madeIn(partition) {
		return u.made, true
	}
	return u.count, u.asked == partition
}

// madeIn reports whether a partition has only made the inode of u: another partition has named the inode,
// without a vote of this one.
func (u *change) madeIn(partition uint16) bool {
	return u.made != 0 && partition == u.observed.Attr.Ino.Partition()
}

// first returns the time at which u was first seen to take effect at any partition. By then u had all its
// locks, and conflicting updates before it had released them. So in the order of these times, conflicting
// updates stand in the order of their execution at each partition, and the time of each update is between its
// issue and its answer.
func (u *change) first() int {
	if u.crossing != nil {
		return u.crossing.at
	}
	return u.at
}

// eventKind is the kind of a happening.
type eventKind uint8

const (
	issues eventKind = iota // client sends an update
	asks                    // client sends a query
	learns                  // an answer: client has seen partition up to count
	reads                   // an answer to a query: learns, and the result must be right
	passes                  // client tells other all that it knows
)

// happening is an action of a client. A read points to its asks.
type happening struct {
	kind      eventKind
	clock     int
	client    int
	other     int
	change    *change
	partition uint16
	count     uint64
	asked     int // the event, of learns and reads
	command   meta.Command
	result    meta.Result
}

func (h *history) add(e happening) int {
	e.clock = h.tick()
	h.events = append(h.events, e)
	return len(h.events) - 1
}

// observedKeys is the store of a replica; it notes the times at which updates take effect, from the keys that
// the replica stores.
type observedKeys struct {
	lossyKeys
	node  *treeNode
	blind bool // nothing is noted: effects can be undone
}

// First bytes of the observed keys: see the documents of packages replica and meta.
const (
	inodeKeys       = 0x02
	sessionKeys     = 0x41
	answerKeys      = 0x42
	coordinatedKeys = 0x43
)

func (k *observedKeys) Set(key, value []byte) {
	switch {
	case k.blind:
	case key[0] == answerKeys:
		k.answers(updateName{k.node.partition, binary.BigEndian.Uint64(key[1:]), binary.BigEndian.Uint64(key[9:])}, value)
	case key[0] == coordinatedKeys:
		k.coordinates(value)
	case key[0] == inodeKeys:
		k.makes(posix.Ino(binary.BigEndian.Uint64(key[1:])))
	}
	k.lossyKeys.Set(key, value)
}

func (k *observedKeys) Delete(key []byte) {
	if key[0] == coordinatedKeys && !k.blind {
		if s := readSeveral(k.Get(key)); s.name.partition != k.node.partition {
			if c := k.node.run.history.byID[s.id]; c != nil {
				k.concludes(s.id, c)
			}
		}
	}
	if key[0] == inodeKeys {
		ino := posix.Ino(binary.BigEndian.Uint64(key[1:]))
		r := varint.NewReader(k.Get(key))
		_ = r.Uint64()
		if links := r.Uint64(); ino.Partition() != k.node.partition && r.Err() == nil && links == 0 {
			k.node.run.reach[reapedAway]++
		}
	}
	k.lossyKeys.Delete(key)
}

// answers records the stored answer of an update: the update takes effect with it.
func (k *observedKeys) answers(name updateName, value []byte) {
	r := varint.NewReader(value)
	_ = r.Uint64()
	result, err := meta.DecodeResult(r.Bytes())
	if err != nil {
		k.node.run.fail("replica %d has no answer to update %+v: %w", k.node.self, name, err)
	}
	k.node.takesEffect(name, k.node.count(), result)
}

// takesEffect records the first time that an update is seen to take effect, and checks that it has one place
// only.
func (n *treeNode) takesEffect(name updateName, count uint64, result meta.Result) {
	u := n.run.history.bySeq[name]
	switch {
	case name.session >= hostileSession:
		n.deny(name, result.Code)
	case u == nil && result.Code == posix.ETIMEDOUT: // abandoned for the sake of another one
	case u == nil:
		n.run.fail("replica %d answers an update that nobody sent: %+v", n.self, name)
	case u.at == 0:
		u.count, u.at, u.observed = count, n.run.history.tick(), result
		if a := &result.Attr; u.command.Op == meta.OpMknod && result.Code == posix.OK && a.Nlink > 0 && a.Ino.Partition() != name.partition {
			n.run.history.byMade[a.Ino] = u
		}
	case u.count != count:
		n.run.fail("update %d had effect at %d of partition %d, and at replica %d at %d", u.number, u.count, name.partition, n.self, count)
	}
}

// makes records the first appearance of an inode: its creation.
func (k *observedKeys) makes(ino posix.Ino) {
	if u := k.node.run.history.byMade[ino]; u != nil && u.made == 0 && ino.Partition() == k.node.partition {
		u.made = k.node.count()
	}
}

// coordinates records that a command of several partitions has entered a phase. The coordinator's commit
// comes first.
func (k *observedKeys) coordinates(value []byte) {
	s := readSeveral(value)
	if mark := markOf[s.phase]; mark != "" {
		k.node.run.reach[mark]++
	}
	if s.phase != phaseCommitted {
		return
	}
	run, p, count := k.node.run, k.node.partition, k.node.count()
	c := run.history.byID[s.id]
	if c == nil {
		c = &crossing{at: run.history.tick(), count: map[uint16]uint64{}}
		run.history.byID[s.id] = c
	}
	k.concludes(s.id, c)
	if u := run.history.bySeq[s.name]; u != nil && p == s.name.partition && u.at != 0 && u.count == count {
		u.crossing = c
	}
}

// concludes records that a party has executed a committed command.
func (k *observedKeys) concludes(id multicast.MessageID, c *crossing) {
	p, count := k.node.partition, k.node.count()
	if before, ok := c.count[p]; ok && before != count {
		k.node.run.fail("replica %d executes command %v at %d, others did at %d", k.node.self, id, count, before)
	}
	c.count[p] = count
}

// several is the stored record of a command of several partitions.
type several struct {
	id    multicast.MessageID
	phase uint8
	name  updateName
}

// markOf maps a phase of a command to its mark.
var markOf = map[uint8]treeMark{1: waitedYounger, 3: refusedOlder, 5: abortedThere}

// phaseCommitted is the phase of a command at the partition that has committed it.
const phaseCommitted = 4

func readSeveral(value []byte) (s several) {
	r := varint.NewReader(value)
	s.id = multicast.MessageID{Sender: multicast.ProcessID(r.Uint32()), Seq: r.Uint64()}
	s.phase = r.Uint8()
	s.name = updateName{partition: r.Uint16(), session: r.Uint64(), seq: r.Uint64()}
	return s
}
