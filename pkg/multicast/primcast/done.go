package primcast

import (
	"cmp"
	"slices"

	"github.com/globalfs/globalfs/internal/varint"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// numbers is a set of message ids; D (line 3) is one. For each sender it has disjoint spans of sequence
// numbers in ascending order. The set is exact. It is small because START(m) names the number that the sender
// used before m for this group: the numbers in between do not exist, and join the spans. So there is one span
// for each sender, one more for each restart of the sender, and further ones for messages on the way (doc.go,
// Classes).
type numbers map[multicast.ProcessID][]span

type span struct{ first, last uint64 }

// has reports whether the set contains id.
func (n numbers) has(id multicast.MessageID) bool {
	spans := n[id.Sender]
	i, _ := slices.BinarySearchFunc(spans, id.Seq, func(s span, seq uint64) int { return cmp.Compare(s.last, seq) })
	return i < len(spans) && spans[i].first <= id.Seq
}

// add adds id and the numbers between prev and id, which do not exist. prev is the number that the sender
// used before id for this group; 0: unknown.
func (n numbers) add(id multicast.MessageID, prev uint64) {
	s := span{first: id.Seq, last: id.Seq}
	if prev != 0 && prev < id.Seq {
		s.first = prev + 1
	}
	spans := n[id.Sender]
	from, _ := slices.BinarySearchFunc(spans, s.first, func(t span, first uint64) int {
		if t.last+1 < first {
			return -1
		}
		return 1
	})
	to := from
	for to < len(spans) && spans[to].first <= s.last+1 {
		s.first, s.last = min(s.first, spans[to].first), max(s.last, spans[to].last)
		to++
	}
	n[id.Sender] = slices.Replace(spans, from, to, s)
}

// spans returns the number of spans of all senders.
func (n numbers) spans() int {
	count := 0
	for _, spans := range n {
		count += len(spans)
	}
	return count
}

func (n numbers) append(b []byte) []byte {
	senders := make([]multicast.ProcessID, 0, len(n))
	for p := range n {
		senders = append(senders, p)
	}
	slices.Sort(senders)
	b = varint.AppendUint(b, uint64(len(senders)))
	for _, p := range senders {
		b = varint.AppendUint(varint.AppendUint(b, p), uint64(len(n[p])))
		for _, s := range n[p] {
			b = varint.AppendUint(varint.AppendUint(b, s.first), s.last-s.first)
		}
	}
	return b
}

func readNumbers(r *varint.Reader) numbers {
	n := numbers{}
	for senders := r.Count(); senders > 0 && r.Err() == nil; senders-- {
		p := multicast.ProcessID(r.Uint32())
		spans := make([]span, r.Count())
		next := uint64(0) // the lowest number with which the next span may begin
		for i := range spans {
			first := r.Uint(maxNumber)
			last := first + r.Uint(maxNumber)
			if first < next || last > maxNumber {
				r.Fail()
			}
			spans[i], next = span{first, last}, last+2
		}
		n[p] = spans
	}
	return n
}
