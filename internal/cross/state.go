package cross

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/session"
	"github.com/globalfs/globalfs/internal/varint"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// Age orders commands for wait-die: by the time of the first proposal, with the id of that message as tie
// break.
type Age struct {
	Time posix.Time
	ID   multicast.MessageID
}

// compare orders ages, the oldest first.
func (a Age) compare(b Age) int { return cmp.Or(cmp.Compare(a.Time, b.Time), a.ID.Compare(b.ID)) }

// phase is how far a command has come at this party.
type phase uint8

// The phases. Their numbers are stored.
const (
	waiting   phase = 1 + iota // for holds of younger commands
	voted                      // to commit or to refuse; what it needs is held
	refused                    // it met the hold of an older command: the coordinator will abort it
	committed                  // at the coordinator, until all parties have confirmed
	aborted                    // likewise
)

// command is a command of several partitions at this party.
type command struct {
	id          multicast.MessageID
	at          multicast.Position // in its class
	number      uint64             // of the command in package meta
	parties     []uint16
	coordinator uint16
	age         Age
	update      session.Update
	phase       phase
	place       uint64   // of the vote
	vote        []byte   // of this party: from voted on until it is decided
	marked      bool     // the state of this party follows from its commit
	votes       [][]byte // at the coordinator, committed: of all parties, in the order of parties

	// Soft state, which messages bring back after a restart.
	received  map[uint16]ballot   // at the coordinator: votes of the other parties
	confirmed map[uint16]ask.Seen // at the coordinator: parties that have ordered the outcome
	outcome   *outcome            // at another party: the decision of the coordinator, to be ordered
	request   *request            // at the asked replica: the calls that wait for the answer
	announced bool                // the others know of the vote or the outcome
	attempt   uint8               // of the asked replica
	since     time.Duration       // when the phase began at this replica
	retryAt   time.Duration
	proposed  multicast.MessageID // of the entry that ends this phase
}

// isUndecided reports whether the command waits for its decision or its outcome.
func (x *command) isUndecided() bool {
	return x.phase == waiting || x.phase == voted || x.phase == refused
}

const (
	commandPrefix = byte(0x43)
	stateByte     = byte(0x46)
	tombstoneByte = byte(0x48)
)

var stateKey = []byte{stateByte}

func tombstoneKey(id multicast.MessageID) []byte {
	b := binary.BigEndian.AppendUint32([]byte{tombstoneByte}, uint32(id.Sender))
	return binary.BigEndian.AppendUint64(b, id.Seq)
}

func commandKey(number uint64) []byte {
	return binary.BigEndian.AppendUint64([]byte{commandPrefix}, number)
}

// save stores a command.
func (c *Commands) save(x *command) {
	b := appendID(nil, x.id)
	b = append(b, byte(x.phase))
	b = varint.AppendUint(b, x.coordinator)
	b = varint.AppendUint(b, x.update.Session)
	b = varint.AppendUint(b, x.update.Seq)
	b = varint.AppendUint(b, x.update.Done)
	b = ask.AppendPosition(b, x.at)
	b = appendAge(appendParties(b, x.parties), x.age)
	b = varint.AppendUint(b, x.place)
	b = varint.AppendUint(b, varint.Bit(x.marked))
	b = varint.AppendBytes(b, x.vote)
	c.keys.Set(commandKey(x.number), appendStrings(b, x.votes))
}

func readCommand(number uint64, b []byte) (*command, error) {
	r := varint.NewReader(slices.Clone(b))
	x := &command{number: number, id: readID(r), phase: phase(r.Uint8()), coordinator: r.Uint16()}
	x.update = session.Update{Session: r.Uint64(), Seq: r.Uint64(), Done: r.Uint64()}
	x.at, x.parties, x.age = ask.ReadPosition(r), readParties(r), readAge(r)
	x.place, x.marked, x.vote = r.Uint64(), r.Uint(1) != 0, r.Bytes()
	x.votes = readStrings(r)
	if r.Done() != nil || x.phase < waiting || x.phase > aborted {
		return nil, fmt.Errorf("stored command %d of several partitions: %w", number, varint.ErrMalformed)
	}
	return x, nil
}

// readState reads the newest number, and the positions of the classes.
func readState(keys meta.Keys) (number uint64, relayed multicast.Progress, err error) {
	b := keys.Get(stateKey)
	if b == nil {
		return 0, nil, nil
	}
	r := varint.NewReader(b)
	number, relayed = r.Uint64(), ask.ReadProgress(r)
	if err := r.Done(); err != nil {
		return 0, nil, fmt.Errorf("stored positions of commands of several partitions: %w", err)
	}
	return number, relayed, nil
}

// load reads the commands, the positions of the classes and the newest number.
func (c *Commands) load() (err error) {
	if c.number, c.relays.executed, err = readState(c.keys); err != nil {
		return err
	}
	for k := range c.keys.Scan([]byte{tombstoneByte}, []byte{tombstoneByte + 1}) {
		if len(k) != 13 {
			return fmt.Errorf("stored tombstone %x: %w", k, varint.ErrMalformed)
		}
		c.tombstones[multicast.MessageID{
			Sender: multicast.ProcessID(binary.BigEndian.Uint32(k[1:])), Seq: binary.BigEndian.Uint64(k[5:]),
		}] = true
	}
	for k, v := range c.keys.Scan([]byte{commandPrefix}, []byte{commandPrefix + 1}) {
		if len(k) != 9 {
			return fmt.Errorf("stored command of several partitions %x: %w", k, varint.ErrMalformed)
		}
		x, err := readCommand(binary.BigEndian.Uint64(k[1:]), v)
		if err != nil {
			return err
		}
		c.add(x)
	}
	return nil
}

// saveState stores the positions of the classes and the newest number.
func (c *Commands) saveState() {
	c.keys.Set(stateKey, ask.AppendProgress(varint.AppendUint(nil, c.number), c.relays.executed))
}

// add lists a command, with what was received for it before it was relayed.
func (c *Commands) add(x *command) {
	x.received, x.confirmed = map[uint16]ballot{}, map[uint16]ask.Seen{}
	if x.coordinator == c.cfg.Partition {
		for from, b := range c.early.take(x.id) {
			x.received[from] = b
		}
	}
	x.since = c.now.Mono
	c.list = append(c.list, x)
	c.byID[x.id] = x
}

// remove forgets a command.
func (c *Commands) remove(x *command) {
	delete(c.byID, x.id)
	c.list = slices.DeleteFunc(c.list, func(o *command) bool { return o == x })
	c.keys.Delete(commandKey(x.number))
	c.touch()
}

// enter begins a phase of a command.
func (c *Commands) enter(x *command, p phase) {
	x.phase, x.announced, x.retryAt, x.since, x.proposed = p, false, 0, c.now.Mono, multicast.MessageID{}
	c.save(x)
	c.touch()
}

// byUpdate finds the undecided command that this partition coordinates for an update.
func (c *Commands) byUpdate(u session.Update) *command {
	for _, x := range c.list {
		if x.isUndecided() && x.coordinator == c.cfg.Partition && x.update.Session == u.Session && x.update.Seq == u.Seq {
			return x
		}
	}
	return nil
}

// Relayed returns the positions of the classes that keys hold: the order between partitions must deliver from
// there on.
func Relayed(keys meta.Keys) (multicast.Progress, error) {
	_, relayed, err := readState(keys)
	return relayed, err
}

// Relayed returns the positions of the classes in the state.
func (c *Commands) Relayed() multicast.Progress { return slices.Clone(c.relays.executed) }
