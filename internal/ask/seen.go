package ask

import (
	"slices"

	"github.com/globalfs/globalfs/internal/varint"
)

// MaxPlaces is the largest number of places in each list of a Seen.
const MaxPlaces = 64

// Seen is the part of one partition's history that a client or a replica has seen.
//
// A place is the number of an entry in the partition's own order. A command of several partitions has one
// place in each party's order: the place of that party's vote. The command is undecided at the party until
// its outcome is ordered there.
//
// Count alone does not tell whether a command committed elsewhere was seen: its place may be below Count
// although its effect is not at this partition yet. Open lists these places. A reader waits for an undecided
// command only if the command's place is open for the reader, so that a command that is stuck delays no
// reader that has not seen its effect.
//
// A partition that has lost entries begins a new history. Counts and places of different histories have
// nothing in common: the part of the newest history replaces the others.
type Seen struct {
	History uint64 // its number in the upper half, see NextHistory
	Count   uint64 // all entries up to this place
	// Open are places of votes, ascending, for commands that were seen committed at another partition.
	Open []uint64
	// OpenUpTo makes every place up to it open. It replaces a list of more than MaxPlaces: a reader may then
	// wait for a command without having seen its effect, which is safe.
	OpenUpTo uint64

	// Undecided are the places that were undecided at the place Known, ascending: the lowest MaxPlaces of
	// them. A place up to Known that is not among them is decided, and no longer open.
	Known     uint64
	Undecided []uint64
}

// IsOpen reports whether the command with a place was seen committed elsewhere, and is not known to be
// decided.
func (s Seen) IsOpen(place uint64) bool {
	return (place <= s.OpenUpTo || slices.Contains(s.Open, place)) && !s.isDecided(place)
}

// isDecided reports whether the command with a place is known to be decided at the partition.
func (s Seen) isDecided(place uint64) bool {
	if place > s.Known || slices.Contains(s.Undecided, place) {
		return false
	}
	return len(s.Undecided) < MaxPlaces || place < s.Undecided[MaxPlaces-1]
}

// isDecidedUpTo reports whether all commands with places up to one are known to be decided.
func (s Seen) isDecidedUpTo(place uint64) bool {
	return place <= s.Known && (len(s.Undecided) == 0 || place < s.Undecided[0])
}

// merge adds the entries and places of other. The slices of other are not changed.
func (s *Seen) merge(other *Seen) {
	if other.History != s.History {
		if other.History > s.History {
			*s = *other
		}
		return
	}
	s.Count = max(s.Count, other.Count)
	s.OpenUpTo = max(s.OpenUpTo, other.OpenUpTo)
	if len(other.Open) > 0 {
		s.Open = slices.Concat(s.Open, other.Open)
		slices.Sort(s.Open)
		s.Open = slices.Compact(s.Open)
	}
	if other.Known > s.Known {
		s.Known, s.Undecided = other.Known, slices.Clone(other.Undecided)
	}
	s.close()
}

// close drops the open places that are known to be decided, and bounds the list of the others.
func (s *Seen) close() {
	if len(s.Open) > 0 {
		s.Open = slices.DeleteFunc(slices.Clone(s.Open), s.isDecided)
	}
	if n := len(s.Open); n > MaxPlaces {
		s.OpenUpTo, s.Open = max(s.OpenUpTo, s.Open[n-1]), nil
	}
	if s.isDecidedUpTo(s.OpenUpTo) {
		s.OpenUpTo = 0
	}
}

// Observe returns s after the client has seen the commit of a command. place is the position of the
// partition's vote on that command.
func (s Seen) Observe(place uint64) Seen {
	s.merge(&Seen{History: s.History, Count: place, Open: []uint64{place}})
	return s
}

// Claim returns the part of s that a client may claim: only the partition may state which commands are
// decided.
func (s Seen) Claim() Seen {
	s.Known, s.Undecided = 0, nil
	return s
}

// IsZero reports whether nothing was seen.
func (s Seen) IsZero() bool { return s.Count == 0 && s.LastOpen() == 0 }

// Histories returns how often the partition has begun a new history.
func (s Seen) Histories() uint64 { return s.History >> 32 }

// NextHistory returns the history that follows the one of s. entry is a hash of the entry that begins the new
// history. If a partition is restored twice from one backup, this hash makes the two new histories different.
func (s Seen) NextHistory(entry uint32) uint64 { return (s.Histories()+1)<<32 | uint64(entry) }

// IsAhead reports whether s has seen entries, or a history, that a partition at own does not have.
func (s Seen) IsAhead(own Seen) bool {
	return s.History > own.History || s.History == own.History && s.Count > own.Count
}

// IsPast reports whether s is about a history that ended before the one of own.
func (s Seen) IsPast(own Seen) bool { return s.History < own.History && !s.IsZero() }

// Covers reports whether an answer at s is as new as other: no entry of other is missing, and every place
// that is open in other was open for the reader of the answer, or decided.
func (s Seen) Covers(other Seen) bool {
	if s.History != other.History {
		return s.History > other.History
	}
	known := func(place uint64) bool { return s.IsOpen(place) || s.isDecided(place) }
	return s.Count >= other.Count && (other.OpenUpTo <= s.OpenUpTo || s.isDecidedUpTo(other.OpenUpTo)) &&
		!slices.ContainsFunc(other.Open, func(place uint64) bool { return !known(place) })
}

// Merge returns the union of s and other.
func (s Seen) Merge(other Seen) Seen {
	s.merge(&other)
	return s
}

// LastOpen returns the highest open place; 0 if none is open.
func (s Seen) LastOpen() uint64 {
	last := s.OpenUpTo
	if n := len(s.Open); n > 0 {
		last = max(last, s.Open[n-1])
	}
	return last
}

// State returns the entry of a partition for itself: the place count of its order, the places of its
// undecided commands, and those of them with a commit known to readers of its state. Both lists ascend.
func State(count uint64, undecided, open []uint64) Seen {
	s := Seen{Count: count, Known: count, Undecided: undecided, Open: open}
	if len(s.Undecided) > MaxPlaces {
		s.Undecided = s.Undecided[:MaxPlaces]
	}
	if n := len(s.Open); n > MaxPlaces {
		s.OpenUpTo, s.Open = s.Open[n-1], nil
	}
	return s
}

// Fields of an encoded Seen that are not zero.
const (
	hasOpen = 1 << iota
	hasOpenUpTo
	hasUndecided
	isNotCurrent // Known is below Count
	hasHistory
	seenFields
)

// Append appends the encoding of s.
func (s Seen) Append(b []byte) []byte {
	var fields uint8
	for i, present := range []bool{len(s.Open) > 0, s.OpenUpTo > 0, len(s.Undecided) > 0, s.Known != s.Count, s.History > 0} {
		fields |= uint8(varint.Bit(present)) << i
	}
	b = append(varint.AppendUint(b, s.Count), fields)
	if fields&hasOpen != 0 {
		b = appendPlaces(b, s.Open)
	}
	if fields&hasOpenUpTo != 0 {
		b = varint.AppendUint(b, s.OpenUpTo)
	}
	if fields&hasUndecided != 0 {
		b = appendPlaces(b, s.Undecided)
	}
	if fields&isNotCurrent != 0 {
		b = varint.AppendUint(b, s.Count-s.Known)
	}
	if fields&hasHistory != 0 {
		b = varint.AppendUint(b, s.History)
	}
	return b
}

// ReadSeen reads an entry that Append has written. If the bytes are malformed, r.Err reports it.
func ReadSeen(r *varint.Reader) (s Seen) {
	s.Count = r.Uint64()
	fields := r.Uint(seenFields - 1)
	if fields&hasOpen != 0 {
		s.Open = readPlaces(r)
	}
	if fields&hasOpenUpTo != 0 {
		s.OpenUpTo = r.Uint(s.Count)
	}
	if fields&hasUndecided != 0 {
		s.Undecided = readPlaces(r)
	}
	s.Known = s.Count
	if fields&isNotCurrent != 0 {
		s.Known -= r.Uint(s.Count)
	}
	if fields&hasHistory != 0 {
		s.History = r.Uint64()
	}
	if n := len(s.Open); n > 0 && s.Open[n-1] > s.Count {
		r.Fail()
	}
	if n := len(s.Undecided); n > 0 && s.Undecided[n-1] > s.Known {
		r.Fail()
	}
	return s
}

// appendPlaces appends ascending places as differences.
func appendPlaces(b []byte, places []uint64) []byte {
	b = varint.AppendUint(b, uint64(len(places)))
	last := uint64(0)
	for _, p := range places {
		b = varint.AppendUint(b, p-last)
		last = p
	}
	return b
}

// readPlaces reads up to MaxPlaces strictly ascending places above 0.
func readPlaces(r *varint.Reader) []uint64 {
	n := r.Uint(MaxPlaces)
	if n == 0 {
		r.Fail() // an empty list is not encoded
	}
	places := make([]uint64, 0, n)
	last := uint64(0)
	for range n {
		difference := r.Uint64()
		if difference == 0 || last+difference < last {
			r.Fail()
		}
		if r.Err() != nil {
			return nil
		}
		last += difference
		places = append(places, last)
	}
	return places
}
