package meta

import (
	"bytes"
	"fmt"
	"maps"
	"slices"

	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/varint"
)

// MaxUndecided bounds the commands of one client that hold something in a partition, or wait there.
const MaxUndecided = 64

// undecided is a stored command of several partitions: it waits (Await), or is between Prepare and Decide.
type undecided struct {
	number  uint64
	command Command
	parties []uint16
	waits   bool
	vote    Vote // empty while the command waits
	holds   holdSet
	touches touched
}

func undecidedKey(number uint64) []byte { return numberKey(prefixUndecided, number) }

// register indexes the undecided commands by their holds. It is derived from the stored commands.
type register struct {
	commands map[uint64]*undecided
	about    map[posix.Ino][]*undecided // commands with a hold on the inode, or on a name in it
	clients  map[string]int             // number of commands of each client that hold something or wait
}

func newRegister() register {
	return register{commands: map[uint64]*undecided{}, about: map[posix.Ino][]*undecided{}, clients: map[string]int{}}
}

func (r *register) add(u *undecided) {
	r.commands[u.number] = u
	for i := range u.holds {
		if ino := u.holds[i].ino; !slices.Contains(r.about[ino], u) {
			r.about[ino] = append(r.about[ino], u)
		}
	}
	if u.counts() {
		r.clients[u.command.Client]++
	}
}

func (r *register) remove(u *undecided) {
	delete(r.commands, u.number)
	for i := range u.holds {
		ino := u.holds[i].ino
		left := slices.DeleteFunc(r.about[ino], func(other *undecided) bool { return other == u })
		if r.about[ino] = left; len(left) == 0 {
			delete(r.about, ino)
		}
	}
	if u.counts() {
		if r.clients[u.command.Client]--; r.clients[u.command.Client] == 0 {
			delete(r.clients, u.command.Client)
		}
	}
}

// counts reports whether u counts for MaxUndecided of its client.
func (u *undecided) counts() bool { return u.command.Client != "" && (u.waits || len(u.holds) > 0) }

// numbers returns the numbers of the commands that wait, or of those that do not, ascending.
func (r *register) numbers(waits bool) (numbers []uint64) {
	for _, number := range slices.Sorted(maps.Keys(r.commands)) {
		if r.commands[number].waits == waits {
			numbers = append(numbers, number)
		}
	}
	return numbers
}

// meets calls found for each command with a hold, or wish, that is incompatible with h, until found returns
// false.
func (r *register) meets(h *hold, found func(u *undecided) bool) {
	for _, u := range r.about[h.ino] {
		if u.holds.meets(h) && !found(u) {
			return
		}
	}
}

// held reports whether a command has a hold that is incompatible with a hold in wanted.
func (r *register) held(wanted holdSet) (is bool) {
	for i := range wanted {
		r.meets(&wanted[i], func(u *undecided) bool {
			is = is || !u.waits
			return !is
		})
	}
	return is
}

// full reports whether a client has the maximum number of commands.
func (r *register) full(client string) bool { return client != "" && r.clients[client] >= MaxUndecided }

// concerns reports whether a command that holds something here concerns ino.
func (r *register) concerns(ino posix.Ino) bool {
	return slices.ContainsFunc(r.about[ino], func(u *undecided) bool {
		return !u.waits && slices.Contains(u.command.names(), ino)
	})
}

// names returns the inodes that c concerns.
func (c *Command) names() []posix.Ino {
	k := c.cast()
	return []posix.Ino{k.from, k.to, k.moved, k.replaced}
}

// keep stores a command and adds it to the register.
func (m *Machine) keep(u *undecided) {
	m.keys.Set(undecidedKey(u.number), u.encode())
	m.undecided.add(u)
}

// release removes a command and its holds.
func (m *Machine) release(u *undecided) {
	m.undecided.remove(u)
	m.keys.Delete(undecidedKey(u.number))
}

func (u *undecided) encode() []byte {
	b := varint.AppendBytes(nil, u.command.Append(nil))
	b = varint.AppendUint(b, uint64(len(u.parties)))
	for _, p := range u.parties {
		b = varint.AppendUint(b, p)
	}
	b = appendBool(b, u.waits)
	b = varint.AppendBytes(b, u.vote.Encoded)
	b = u.holds.append(b)
	b = varint.AppendBytes(b, u.command.Client)
	if u.command.Authority != nil {
		b = AppendAuthority(b, u.command.Authority)
	}
	return b
}

// readCommand decodes a command. If b is malformed, it returns one without an operation, because Prepare does
// not check its argument.
func readCommand(b []byte) Command {
	c, err := DecodeCommand(b)
	if err != nil {
		return Command{}
	}
	return c
}

// decodeUndecided reads a stored command; its slices do not alias b.
func decodeUndecided(number uint64, b []byte) (*undecided, error) {
	r := varint.NewReader(bytes.Clone(b))
	u := &undecided{number: number}
	command := r.Bytes()
	for n := r.Count(); n > 0 && r.Err() == nil; n-- {
		u.parties = append(u.parties, r.Uint16())
	}
	u.waits = r.Uint(1) == 1
	vote := r.Bytes()
	u.holds = readHolds(r)
	u.command = readCommand(command)
	u.command.Client = r.String()
	if r.Len() > 0 {
		u.command.Authority = ReadAuthority(r)
	}
	if err := r.Done(); err != nil {
		return nil, err
	}
	if !u.waits {
		u.voted(vote)
	}
	return u, nil
}

// loadUndecided reads the stored commands.
func (m *Machine) loadUndecided() error {
	for key, value := range m.keys.Scan([]byte{prefixUndecided}, []byte{prefixUndecided + 1}) {
		number := uint64(inoOf(key))
		u, err := decodeUndecided(number, value)
		if err != nil {
			return fmt.Errorf("stored undecided command %d: %w", number, err)
		}
		m.undecided.add(u)
	}
	return nil
}

// Pending returns the command of m with a number, if it is prepared or waits.
func Pending(m *Machine, number uint64) (c Command, known bool) {
	u := m.undecided.commands[number]
	if u == nil {
		return Command{}, false
	}
	return u.command, true
}
