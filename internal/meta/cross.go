package meta

import (
	"bytes"
	"slices"

	"github.com/globalfs/globalfs/internal/posix"
)

// A command over several partitions is executed in two steps. Prepare looks at the part of its scene that is
// here, holds it, and votes. Decide has the votes of all parties, sees the same scene as all, and executes
// the part of this partition. In between all other commands go on.
//
// A party that must refuse by its own state (alone.go) holds nothing: a client holds nothing that it may not
// change. A party where the command meets a hold gives no vote on the state, and holds nothing either: that
// state may be about to change. A command can wait for the end of such holds (Await). It holds nothing then,
// but Conflicts names it to others, unless it would be refused.

// Vote is the answer of one party to a command over several partitions.
type Vote struct {
	Encoded []byte // for Decide, at all parties

	// Code is OK if this party votes for the command, and has the holds for it. Otherwise it holds nothing,
	// and the command will be refused: EHELD if another command or the bound of this client is in the way,
	// EREMOTE if the client has a wrong picture of this partition, or an error of the command.
	Code posix.Code
	// Final says that the command is refused with Code. Otherwise the votes of all parties determine the code
	// of the refusal.
	Final bool
}

// ReadVote gives the vote that another party has encoded.
func ReadVote(encoded []byte) (Vote, error) {
	v, err := decodeVote(encoded)
	if err != nil {
		return Vote{}, err
	}
	return Vote{Encoded: encoded, Code: v.code, Final: v.final}, nil
}

// Conflicting has the numbers of commands whose holds or wishes are incompatible with those of another one,
// sorted.
type Conflicting struct {
	Holders []uint64
	Waiters []uint64
}

// Prepare gives the vote of this partition on a command of several, and holds the state behind it until
// Decide or Abort. number identifies the undecided commands of this partition. A known number gives the same
// vote again; one that waits stops waiting.
func (m *Machine) Prepare(number uint64, c *Command, parties []uint16) Vote {
	if u := m.undecided.commands[number]; u != nil {
		if !u.waits {
			return u.vote
		}
		m.release(u)
	}
	v, wanted := m.ballot(c, parties)
	switch {
	case m.undecided.held(wanted), v.code == posix.OK && m.undecided.full(c.Client):
		v, wanted = m.refusal(c, posix.EHELD), nil
	case v.code != posix.OK:
		wanted = nil
	}
	u := newUndecided(number, c, parties)
	u.holds = wanted
	u.voted(v.encode())
	m.keep(u)
	return u.vote
}

// Await has a command wait until Prepare or Abort. It holds nothing, but Conflicts names it to others. It
// reports whether the client may have one more command here; if not, nothing is stored. A number that is
// known is left as it is.
func (m *Machine) Await(number uint64, c *Command, parties []uint16) bool {
	switch {
	case m.undecided.commands[number] != nil:
		return true
	case m.undecided.full(c.Client):
		return false
	}
	u := newUndecided(number, c, parties)
	u.waits = true
	if v, wanted := m.ballot(c, parties); v.code == posix.OK {
		u.holds = wanted
	}
	m.keep(u)
	return true
}

// Conflicts gives the commands whose holds, or wishes, are incompatible with the holds of c here. number is
// that of c, which is left out. A command that this party would refuse alone has no wishes, but its refusal
// must wait for the holders.
func (m *Machine) Conflicts(number uint64, c *Command, parties []uint16) (with Conflicting) {
	v, wanted := m.ballot(c, parties)
	for i := range wanted {
		m.undecided.meets(&wanted[i], func(u *undecided) bool {
			switch {
			case u.number == number || u.waits && v.code != posix.OK:
			case u.waits:
				with.Waiters = append(with.Waiters, u.number)
			default:
				with.Holders = append(with.Holders, u.number)
			}
			return true
		})
	}
	for _, numbers := range []*[]uint64{&with.Holders, &with.Waiters} {
		slices.Sort(*numbers)
		*numbers = slices.Compact(*numbers)
	}
	return with
}

// Decide executes a prepared command if the votes of all parties, this one's included, allow it. All parties
// come to the same end and give the same code. It is OK only if all votes are for the command.
func (m *Machine) Decide(number uint64, votes [][]byte, counter uint64) Result {
	u := m.undecided.commands[number]
	if u == nil || u.waits {
		return failed(posix.EREMOTE)
	}
	m.release(u)
	c := u.command
	decoded, complete := decodeVotes(votes, u.parties)
	if c.Op == 0 || !complete || !slices.ContainsFunc(votes, func(v []byte) bool { return bytes.Equal(v, u.vote.Encoded) }) {
		return failed(posix.EREMOTE)
	}
	o := combine(&c, decoded)
	if o.code != posix.OK {
		return failed(o.code)
	}
	r := m.act(&c, &o, counter)
	m.saveState()
	return r
}

// Abort forgets a command that is prepared or waits. Nothing comes of it. A number that is not known is none.
func (m *Machine) Abort(number uint64) {
	if u := m.undecided.commands[number]; u != nil {
		m.release(u)
	}
}

// Undecided gives the numbers of the commands that are prepared and neither decided nor aborted, in their
// order.
func (m *Machine) Undecided() []uint64 { return m.undecided.numbers(false) }

// Waiting gives the numbers of the commands that wait, in their order.
func (m *Machine) Waiting() []uint64 { return m.undecided.numbers(true) }

// Given gives the vote on a command that is prepared.
func (m *Machine) Given(number uint64) (Vote, bool) {
	u := m.undecided.commands[number]
	if u == nil || u.waits {
		return Vote{}, false
	}
	return u.vote, true
}

// Awaiting gives a command that waits, with its parties. It is as Await was given it, except for its session.
func (m *Machine) Awaiting(number uint64) (c Command, parties []uint16, waits bool) {
	u := m.undecided.commands[number]
	if u == nil || !u.waits {
		return Command{}, nil, false
	}
	return u.command, slices.Clone(u.parties), true
}

func newUndecided(number uint64, c *Command, parties []uint16) *undecided {
	u := &undecided{number: number, command: readCommand(c.Append(nil)), parties: slices.Clone(parties)}
	u.command.Authority, u.command.Client = c.Authority, c.Client
	return u
}

// voted notes the vote on a command, and the state that the command will change.
func (u *undecided) voted(encoded []byte) {
	v, err := decodeVote(encoded)
	if u.vote = (Vote{Encoded: encoded, Code: v.code, Final: v.final}); err != nil {
		u.vote.Code = posix.EREMOTE
	}
	if u.vote.Code == posix.OK {
		u.touches = touchedBy(&u.command)
	}
}
