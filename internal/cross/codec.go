package cross

import (
	"slices"

	"github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/varint"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// The encodings shared by entries, messages and stored commands. A reader fails on malformed bytes; its
// allocations are bounded by the length of its input.

func appendID(b []byte, id multicast.MessageID) []byte {
	return varint.AppendUint(varint.AppendUint(b, uint32(id.Sender)), id.Seq)
}

func readID(r *varint.Reader) multicast.MessageID {
	return multicast.MessageID{Sender: multicast.ProcessID(r.Uint32()), Seq: r.Uint64()}
}

func appendAge(b []byte, a Age) []byte { return appendID(varint.AppendInt(b, int64(a.Time)), a.ID) }

func readAge(r *varint.Reader) Age { return Age{Time: posix.Time(r.Int()), ID: readID(r)} }

func appendParties(b []byte, parties []uint16) []byte {
	b = varint.AppendUint(b, uint64(len(parties)))
	for _, p := range parties {
		b = varint.AppendUint(b, p)
	}
	return b
}

func readParties(r *varint.Reader) (parties []uint16) {
	for n := r.Count(); n > 0 && r.Err() == nil; n-- {
		parties = append(parties, r.Uint16())
	}
	return parties
}

func appendStrings(b []byte, votes [][]byte) []byte {
	b = varint.AppendUint(b, uint64(len(votes)))
	for _, v := range votes {
		b = varint.AppendBytes(b, v)
	}
	return b
}

func readStrings(r *varint.Reader) (votes [][]byte) {
	for n := r.Count(); n > 0 && r.Err() == nil; n-- {
		votes = append(votes, r.Bytes())
	}
	return votes
}

// ballotKind is the content of a ballot.
type ballotKind uint8

// The kinds of ballots. Their numbers never change.
const (
	noBallot ballotKind = iota // not voted yet
	approval                   // a vote; the holds are taken, or the party refuses the command by itself
	refusal                    // the command is younger than one that it conflicts with
)

// ballot is the vote of a party as it travels.
type ballot struct {
	kind   ballotKind
	place  uint64     // of the vote in the party's own order
	vector ask.Vector // seen by the party when it voted
	vote   []byte     // of package meta
}

func appendBallot(b []byte, x ballot) []byte {
	b = append(b, byte(x.kind))
	if x.kind != approval {
		return b
	}
	return varint.AppendBytes(x.vector.Append(varint.AppendUint(b, x.place)), x.vote)
}

func readBallot(r *varint.Reader) ballot {
	x := ballot{kind: ballotKind(r.Uint(uint64(refusal)))}
	if x.kind == approval {
		x.place, x.vector, x.vote = r.Uint64(), ask.ReadVector(r), r.Bytes()
	}
	return x
}

// clone returns a ballot that does not alias the message that it was read from.
func (x ballot) clone() ballot {
	x.vote = slices.Clone(x.vote)
	return x
}

// readList reads elements up to the end of r.
func readList[T any](r *varint.Reader, read func(*varint.Reader) T) (all []T) {
	for r.Len() > 0 && r.Err() == nil {
		all = append(all, read(r))
	}
	return all
}
