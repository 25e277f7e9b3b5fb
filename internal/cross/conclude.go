package cross

import (
	"fmt"

	"github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// State is the state of a partition in a consistent cut. Its machine is over its keys.
type State struct {
	Keys    meta.Keys
	Machine *meta.Machine
}

// Concluded counts the commands of several partitions that a cut had left open.
type Concluded struct {
	Committed int // parties that now execute the coordinator's decision
	Aborted   int // parties that now release their holds: the coordinator had not decided to commit
}

// Conclude ends all commands of several partitions in the states of all partitions at a consistent cut,
// indexed by partition. Each party gets the outcome that the coordinator has decided inside of the cut; a
// command that the coordinator has not decided to commit there is aborted. Afterwards the partitions remember
// no command and no position of a class, and their vectors stand in new histories: hash distinguishes the
// histories of different restores. An error means that the states are no consistent cut, or are damaged.
func Conclude(states []State, hash uint32) (done Concluded, err error) {
	tables := make([]*table, len(states))
	for p := range states {
		if tables[p], err = storedTable(states[p].Keys); err != nil {
			return done, fmt.Errorf("partition %d: %w", p, err)
		}
	}
	seen := make(ask.Vector, len(states))
	for p := range states {
		v, err := StoredVector(states[p].Keys)
		if err != nil {
			return done, fmt.Errorf("partition %d: %w", p, err)
		}
		seen[p] = v.Of(uint16(p))
	}
	for p := range states {
		for _, x := range tables[p].all() {
			if err := states[p].conclude(x, uint16(p), tables, seen[p].Count, &done); err != nil {
				return done, fmt.Errorf("partition %d: %w", p, err)
			}
		}
	}
	for p := range seen {
		count := seen[p].Count
		seen[p] = ask.Seen{History: seen[p].NextHistory(hash), Count: count, Known: count}
	}
	for p := range states {
		states[p].forget(seen)
	}
	return done, nil
}

// conclude ends a command at one party.
func (s *State) conclude(x *command, partition uint16, tables []*table, count uint64, done *Concluded) error {
	if !x.isUndecided() {
		return nil
	}
	var decided *command
	if int(x.coordinator) < len(tables) && x.coordinator != partition {
		decided = tables[x.coordinator].find(x.id)
	}
	if decided == nil || decided.phase != committed {
		s.Machine.Abort(x.number)
		done.Aborted++
		return nil
	}
	if x.phase != voted {
		return fmt.Errorf("command %v is committed by partition %d, and this party has not voted: the states are no consistent cut", x.id, x.coordinator)
	}
	if r := s.Machine.Decide(x.number, decided.votes, count); r.Code != posix.OK {
		return fmt.Errorf("command %v is committed by partition %d, and ends here with %v: the states are no consistent cut", x.id, x.coordinator, r.Code)
	}
	done.Committed++
	return nil
}

// forget removes the state of the orders of the original cluster.
func (s *State) forget(seen ask.Vector) {
	for _, prefix := range []byte{commandPrefix, stateKey[0], tombstoneByte} {
		for k := range s.Keys.Scan([]byte{prefix}, []byte{prefix + 1}) {
			s.Keys.Delete(k)
		}
	}
	s.Keys.Set(vectorKey, seen.Append(nil))
}

// Contradictions compares the vectors of states: a state must not follow from entries of another partition
// that the other state does not hold. It returns the contradictions; nothing for a consistent cut.
func Contradictions(keys []meta.Keys) (found []string, err error) {
	vectors := make([]ask.Vector, len(keys))
	for p := range keys {
		if vectors[p], err = StoredVector(keys[p]); err != nil {
			return nil, fmt.Errorf("partition %d: %w", p, err)
		}
	}
	for p, v := range vectors {
		for q := range v {
			if q >= len(vectors) {
				break
			}
			if own, seen := vectors[q].Of(uint16(q)), v.Of(uint16(q)); seen.IsAhead(own) {
				found = append(found, fmt.Sprintf("partition %d follows from entry %d of partition %d, whose state ends with entry %d", p, seen.Count, q, own.Count))
			}
		}
	}
	return found, nil
}

// storedTable returns the commands that keys hold.
func storedTable(keys meta.Keys) (*table, error) {
	t := &table{keys: keys, timer: &timer{}, byID: map[multicast.MessageID]*command{}}
	return t, t.load()
}
