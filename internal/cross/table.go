package cross

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/session"
	"github.com/globalfs/globalfs/internal/varint"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// table holds the commands that are undecided at this partition, or that it coordinates and has not
// forgotten.
type table struct {
	partition uint16
	keys      meta.Keys
	machine   *meta.Machine
	timer     *timer

	list []*command // by number
	byID map[multicast.MessageID]*command
	// Whether the undecided commands or their marks have changed since the last call of Changed, and since
	// the last call of takeVotesChanged.
	changed, votesChanged bool
}

// load reads the commands that the keys hold.
func (t *table) load() error {
	for k, v := range t.keys.Scan([]byte{commandPrefix}, []byte{commandPrefix + 1}) {
		if len(k) != 9 {
			return fmt.Errorf("stored command of several partitions %x: %w", k, varint.ErrMalformed)
		}
		x, err := readCommand(binary.BigEndian.Uint64(k[1:]), v)
		if err != nil {
			return err
		}
		t.add(x)
	}
	return nil
}

// add lists a command.
func (t *table) add(x *command) {
	x.received, x.confirmed = map[uint16]ballot{}, map[uint16]ask.Seen{}
	x.since = t.timer.time()
	t.list = append(t.list, x)
	t.byID[x.id] = x
}

// remove forgets a command.
func (t *table) remove(x *command) {
	delete(t.byID, x.id)
	t.list = slices.DeleteFunc(t.list, func(o *command) bool { return o == x })
	t.keys.Delete(commandKey(x.number))
	t.touch()
}

// enter begins a phase of a command.
func (t *table) enter(x *command, p phase) {
	x.phase, x.announced, x.retryAt, x.since, x.proposed = p, false, 0, t.timer.time(), multicast.MessageID{}
	t.save(x)
	t.touch()
}

// save stores a command.
func (t *table) save(x *command) { t.keys.Set(commandKey(x.number), x.encode()) }

// mark marks the undecided commands with open places in the seen part of this partition.
func (t *table) mark(seen ask.Seen) {
	for _, x := range t.list {
		if x.phase == voted && !x.marked && seen.IsOpen(x.place) {
			x.marked = true
			t.save(x)
			t.touch()
		}
	}
}

// touch records that a command has entered another phase, or was marked.
func (t *table) touch() {
	t.changed, t.votesChanged = true, true
	t.timer.hurry()
}

// Changed reports whether a command was prepared, decided or marked since the last call. If so, waiting reads
// and updates must be tried again.
func (t *table) Changed() bool {
	changed := t.changed
	t.changed = false
	return changed
}

// takeVotesChanged reports whether votePlaces may have changed since the last call.
func (t *table) takeVotesChanged() bool {
	changed := t.votesChanged
	t.votesChanged = false
	return changed
}

// votePlaces returns the vote places of the undecided commands, and those of the marked ones, both ascending.
func (t *table) votePlaces() (undecided, open []uint64) {
	for _, x := range t.list {
		if x.phase != voted {
			continue
		}
		undecided = insert(undecided, x.place)
		if x.marked {
			open = insert(open, x.place)
		}
	}
	return undecided, open
}

// insert puts a place into an ascending list, once.
func insert(places []uint64, place uint64) []uint64 {
	i := len(places)
	for i > 0 && places[i-1] > place {
		i--
	}
	if i > 0 && places[i-1] == place {
		return places
	}
	places = append(places, 0)
	copy(places[i+1:], places[i:])
	places[i] = place
	return places
}

// all returns the commands by number. The caller must not change the list.
func (t *table) all() []*command { return t.list }

// find returns the command with an id; nil: it is not listed.
func (t *table) find(id multicast.MessageID) *command { return t.byID[id] }

// byUpdate finds the undecided command that this partition coordinates for an update.
func (t *table) byUpdate(u session.Update) *command {
	for _, x := range t.list {
		if x.isUndecided() && x.coordinator == t.partition && x.update.Session == u.Session && x.update.Seq == u.Seq {
			return x
		}
	}
	return nil
}

// isYounger reports whether a command of an age is younger than one of the commands with the given numbers.
func (t *table) isYounger(age Age, numbers []uint64) bool {
	for _, n := range numbers {
		i, found := slices.BinarySearchFunc(t.list, n, func(o *command, n uint64) int { return cmp.Compare(o.number, n) })
		if found && t.list[i].age.compare(age) < 0 {
			return true
		}
	}
	return false
}

// waitingByAge returns the commands that wait for holds, the oldest first.
func (t *table) waitingByAge() []*command {
	var all []*command
	for _, x := range t.list {
		if x.phase == waiting {
			all = append(all, x)
		}
	}
	slices.SortFunc(all, func(a, b *command) int { return cmp.Or(a.age.compare(b.age), cmp.Compare(a.number, b.number)) })
	return all
}

// Undecided returns the number of commands that wait for a decision or an outcome.
func (t *table) Undecided() int {
	n := 0
	for _, x := range t.list {
		if x.isUndecided() {
			n++
		}
	}
	return n
}

// Awaits reports whether a query or an update of a client must wait for one of these:
//
//   - an undecided command that touches its objects, if the client may have seen the commit elsewhere (reader
//     is its view of this partition), or if the state here follows from the commit (it is marked);
//   - the post that makes its inode.
func (t *table) Awaits(reader ask.Seen, command *meta.Command) bool {
	if t.machine.Awaits(command) {
		return true
	}
	for _, x := range t.list {
		if x.phase == voted && (x.marked || reader.IsOpen(x.place)) && t.machine.Touches(x.number, command) {
			return true
		}
	}
	return false
}

// Barrier returns the numbers of the commands that may be committed elsewhere already. A linearizable read
// that was sent before waits for those of them that touch its objects.
func (t *table) Barrier() (numbers []uint64) {
	for _, x := range t.list {
		if x.phase == voted {
			numbers = append(numbers, x.number)
		}
	}
	return numbers
}

// AwaitsAny reports whether one of the commands is undecided still, and touches the objects of c.
func (t *table) AwaitsAny(numbers []uint64, command *meta.Command) bool {
	for _, n := range numbers {
		if t.machine.Touches(n, command) {
			return true
		}
	}
	return false
}
