package cross

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"github.com/globalfs/globalfs/internal/ask"
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

// phase is the progress of a command at this party.
type phase uint8

// The phases. Their numbers are stored.
const (
	waiting   phase = 1 + iota // for holds of younger commands
	voted                      // to commit or to refuse; the needed objects are held
	refused                    // younger than a conflicting command: the coordinator will abort it
	committed                  // at the coordinator, until all parties have confirmed the outcome
	aborted                    // at the coordinator, until all parties have confirmed the outcome
)

// command is a command of several partitions at this party.
type command struct {
	id          multicast.MessageID
	position    multicast.Position // in its class
	number      uint64             // of the command in package meta
	parties     []uint16
	coordinator uint16
	age         Age
	update      session.Update
	phase       phase
	place       uint64   // of the vote in the own order
	vote        []byte   // the ballot of this party, in the phases voted and refused
	marked      bool     // the commit is in the past of this party's state
	votes       [][]byte // in the phase committed: of all parties, in the order of parties

	// Soft state: it is not stored, and messages restore it after a restart.
	received  map[uint16]ballot   // at the coordinator: votes of the other parties
	confirmed map[uint16]ask.Seen // at the coordinator: parties that have ordered the outcome
	outcome   *outcome            // at another party: the decision of the coordinator, to be ordered
	request   *request            // at the asked replica: the calls that wait for the answer
	announced bool                // the vote or the outcome was sent to the other parties
	attempt   uint8               // number of the proposal by the asked replica, from 0 on
	since     time.Duration       // when the phase began at this replica
	retryAt   time.Duration       // when this replica repeats its messages, or does the leader's work
	proposed  multicast.MessageID // the newest proposal of an entry that ends this phase
}

// isUndecided reports whether the command waits for its decision or its outcome.
func (x *command) isUndecided() bool {
	return x.phase == waiting || x.phase == voted || x.phase == refused
}

const commandPrefix = byte(0x43)

func commandKey(number uint64) []byte {
	return binary.BigEndian.AppendUint64([]byte{commandPrefix}, number)
}

// encode returns the stored form of a command.
func (x *command) encode() []byte {
	b := appendID(nil, x.id)
	b = append(b, byte(x.phase))
	b = varint.AppendUint(b, x.coordinator)
	b = varint.AppendUint(b, x.update.Session)
	b = varint.AppendUint(b, x.update.Seq)
	b = varint.AppendUint(b, x.update.Done)
	b = ask.AppendPosition(b, x.position)
	b = appendAge(appendParties(b, x.parties), x.age)
	b = varint.AppendUint(b, x.place)
	b = varint.AppendUint(b, varint.Bit(x.marked))
	b = varint.AppendBytes(b, x.vote)
	return appendStrings(b, x.votes)
}

func readCommand(number uint64, b []byte) (*command, error) {
	r := varint.NewReader(slices.Clone(b))
	x := &command{number: number, id: readID(r), phase: phase(r.Uint8()), coordinator: r.Uint16()}
	x.update = session.Update{Session: r.Uint64(), Seq: r.Uint64(), Done: r.Uint64()}
	x.position, x.parties, x.age = ask.ReadPosition(r), readParties(r), readAge(r)
	x.place, x.marked, x.vote = r.Uint64(), r.Uint(1) != 0, r.Bytes()
	x.votes = readStrings(r)
	if r.Done() != nil || x.phase < waiting || x.phase > aborted {
		return nil, fmt.Errorf("stored command %d of several partitions: %w", number, varint.ErrMalformed)
	}
	return x, nil
}
