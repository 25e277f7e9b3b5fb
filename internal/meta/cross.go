package meta

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/varint"
)

// A command over several partitions is executed in two steps. Prepare looks at what of it is here, holds that, and
// votes. Decide has the votes of all, sees the same scene as all, and does what is to be done here. In between
// all other commands go on.

// undecided is a command between Prepare and Decide, as stored.
type undecided struct {
	command []byte
	parties []uint16
	vote    []byte
	holds   []hold
	names   []posix.Ino // inodes that the command is about

	authority *posix.Authority // of the command; not among what is stored if it is nil
}

func undecidedKey(number uint64) []byte { return numberKey(prefixUndecided, number) }

// Prepare looks at what this partition has to say of a command over several, keeps others
// from changing it until Decide, and gives its vote. number tells the undecided commands of this partition apart.
func (m *Machine) Prepare(number uint64, c *Command, parties []uint16) (encoded []byte) {
	if u := m.undecided[number]; u != nil {
		return u.vote
	}
	v, wanted := m.ballot(c, parties)
	if !slices.Contains(parties, m.cfg.Partition) || slices.ContainsFunc(wanted, m.holds.meets) {
		v, wanted = m.refusal(c), nil
	}
	if c.Op == OpMknod && !v.refused && c.Target == m.cfg.Partition {
		v.fresh = m.freshNumber()
	}
	u := &undecided{command: c.Append(nil), parties: slices.Clone(parties), vote: v.encode(), holds: wanted, names: c.names(), authority: c.Authority}
	m.keys.Set(undecidedKey(number), u.encode())
	m.hold(number, u)
	m.saveState()
	return u.vote
}

// Decide executes a prepared command if the votes of all parties, this one's included, allow it. All parties come to the
// same end and give the same code.
func (m *Machine) Decide(number uint64, votes [][]byte, counter uint64) Result {
	u := m.undecided[number]
	if u == nil {
		return failed(posix.EREMOTE)
	}
	for _, h := range u.holds {
		m.holds.add(h, -1)
	}
	delete(m.undecided, number)
	m.keys.Delete(undecidedKey(number))
	c, err := DecodeCommand(u.command)
	c.Authority = u.authority
	decoded, complete := decodeVotes(votes, u.parties)
	if err != nil || !complete || !slices.ContainsFunc(votes, func(v []byte) bool { return bytes.Equal(v, u.vote) }) {
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

// names gives the inodes that c is about.
func (c *Command) names() []posix.Ino {
	k := c.cast()
	return []posix.Ino{k.from, k.to, k.moved, k.replaced}
}

func (m *Machine) hold(number uint64, u *undecided) {
	m.undecided[number] = u
	for _, h := range u.holds {
		m.holds.add(h, 1)
	}
}

// speaks reports whether an undecided command is about ino.
func (m *Machine) speaks(ino posix.Ino) bool {
	for _, u := range m.undecided {
		if slices.Contains(u.names, ino) {
			return true
		}
	}
	return false
}

func (u *undecided) encode() []byte {
	b := varint.AppendBytes(nil, u.command)
	b = varint.AppendUint(b, uint64(len(u.parties)))
	for _, p := range u.parties {
		b = varint.AppendUint(b, p)
	}
	b = varint.AppendBytes(b, u.vote)
	b = varint.AppendUint(b, uint64(len(u.holds)))
	for _, h := range u.holds {
		b = varint.AppendUint(b, uint8(h.kind))
		b = varint.AppendUint(b, h.ino)
		b = varint.AppendBytes(b, h.name)
	}
	if u.authority != nil {
		b = AppendAuthority(b, u.authority)
	}
	return b
}

// decodeUndecided reads a stored command; its slices do not alias b.
func decodeUndecided(b []byte) (*undecided, error) {
	r := varint.NewReader(bytes.Clone(b))
	u := &undecided{command: r.Bytes()}
	for n := r.Count(); n > 0 && r.Err() == nil; n-- {
		u.parties = append(u.parties, r.Uint16())
	}
	u.vote = r.Bytes()
	for n := r.Count(); n > 0 && r.Err() == nil; n-- {
		u.holds = append(u.holds, hold{kind: holdKind(r.Uint8()), ino: posix.Ino(r.Uint64()), name: r.String()})
	}
	if r.Len() > 0 {
		u.authority = ReadAuthority(r)
	}
	if err := r.Done(); err != nil {
		return nil, err
	}
	if c, err := DecodeCommand(u.command); err == nil {
		u.names = c.names() // of what is no command nothing will come
	}
	return u, nil
}

// loadUndecided holds again what was held when the keys were stored.
func (m *Machine) loadUndecided() error {
	for key, value := range m.keys.Scan([]byte{prefixUndecided}, []byte{prefixUndecided + 1}) {
		number := uint64(inoOf(key))
		u, err := decodeUndecided(value)
		if err != nil {
			return fmt.Errorf("stored undecided command %d: %w", number, err)
		}
		m.hold(number, u)
	}
	return nil
}
