package meta

import (
	"bytes"
	"slices"

	"github.com/globalfs/globalfs/internal/posix"
)

// A command of several partitions is executed in two steps at each party. Prepare reads the part of the
// command's scene that is in this partition, holds it, and returns a vote. Decide gets the votes of all
// parties, so that each party sees the whole scene, and executes the part of this partition. Between both
// steps other commands are executed.
//
// A party holds nothing in two cases:
//
//   - It refuses the command by its own state (alone.go). Otherwise a client could hold state that it may not
//     change.
//   - The command meets a hold of another command: that state may be about to change, so the party does not
//     vote on it. The command can wait for the end of the hold (Await). A waiting command holds nothing. It
//     has wishes: the holds that it needs. Conflicts compares other commands with them.

// Vote is the vote of one party on a command of several partitions.
type Vote struct {
	Encoded []byte // to pass to Decide at all parties

	// Code is OK if this party votes for the command and has the holds for it. Otherwise the party holds
	// nothing, and the command will be refused: with EHELD because of a hold or the bound of the client,
	// with EREMOTE because the client's information about this partition is out of date, or with the code of
	// another error.
	Code posix.Code
	// Final means that Code is the code of the refusal. Otherwise the votes of all parties determine the
	// code.
	Final bool
}

// ReadVote decodes the vote of another party.
func ReadVote(encoded []byte) (Vote, error) {
	v, err := decodeVote(encoded)
	if err != nil {
		return Vote{}, err
	}
	return Vote{Encoded: encoded, Code: v.code, Final: v.final}, nil
}

// Conflicting has the numbers of the commands whose holds, or wishes for holds, are incompatible with those
// of another command, sorted.
type Conflicting struct {
	Holders []uint64
	Waiters []uint64
}

// Prepare returns the vote of this partition on a command of several partitions. Until Decide or Abort it
// holds the state on which the vote depends. number identifies undecided commands of this partition. A
// repeated call with a number returns the same vote. A waiting command stops waiting.
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

// Await makes a command wait until Prepare or Abort. A waiting command holds nothing, but Conflicts returns
// it to others. Await reports false, and stores nothing, if the client has too many commands here. It does
// nothing for a known number.
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

// Conflicts returns the commands whose holds or wishes are incompatible with the holds that c needs in this
// partition, except number, which is c itself. A command that this party would refuse alone has no wishes;
// the refusal must wait for the holders nevertheless.
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

// Decide executes a prepared command if the votes of all parties, including the own one, allow it. All
// parties get the same code. It is OK only if all votes are for the command.
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

// Abort ends a prepared or waiting command without an effect. It does nothing for an unknown number.
func (m *Machine) Abort(number uint64) {
	if u := m.undecided.commands[number]; u != nil {
		m.release(u)
	}
}

// Undecided returns the numbers of the prepared commands, ascending.
func (m *Machine) Undecided() []uint64 { return m.undecided.numbers(false) }

// Waiting returns the numbers of the waiting commands, ascending.
func (m *Machine) Waiting() []uint64 { return m.undecided.numbers(true) }

// VoteOn returns the vote on a prepared command.
func (m *Machine) VoteOn(number uint64) (Vote, bool) {
	u := m.undecided.commands[number]
	if u == nil || u.waits {
		return Vote{}, false
	}
	return u.vote, true
}

// Awaiting returns a waiting command and its parties, as passed to Await, without its session.
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

// voted records the vote on a command, and the state that the command will change.
func (u *undecided) voted(encoded []byte) {
	v, err := decodeVote(encoded)
	if u.vote = (Vote{Encoded: encoded, Code: v.code, Final: v.final}); err != nil {
		u.vote.Code = posix.EREMOTE
	}
	if u.vote.Code == posix.OK {
		u.touches = touchedBy(&u.command)
	}
}
