package block

import (
	"bytes"
	"iter"
)

// IDs returns the ids of Pages one by one.
func IDs(from, to ID, next func(from ID) (ids []ID, more bool, err error)) iter.Seq2[ID, error] {
	return func(yield func(ID, error) bool) {
		for ids, err := range Pages(from, to, next) {
			if err != nil {
				yield(ID{}, err)
				return
			}
			for _, id := range ids {
				if !yield(id, nil) {
					return
				}
			}
		}
	}
}

// Pages returns the ids from from to to in pages. next returns the ids from an id on, and whether there are
// more. An error is the last thing that the sequence yields.
func Pages(from, to ID, next func(from ID) (ids []ID, more bool, err error)) iter.Seq2[[]ID, error] {
	return func(yield func([]ID, error) bool) {
		for at := from; bytes.Compare(at[:], to[:]) <= 0; {
			ids, more, err := next(at)
			if !yield(ids, err) || err != nil || !more || len(ids) == 0 || ids[len(ids)-1] == LastID {
				return
			}
			at = Next(ids[len(ids)-1])
		}
	}
}

// Next returns the id after id, which must not be LastID.
func Next(id ID) ID {
	for i := len(id) - 1; i >= 0; i-- {
		if id[i]++; id[i] != 0 {
			break
		}
	}
	return id
}

// Merge returns the union of ascending sequences. A sequence that fails ends and the others go on. The first
// error is the last thing that the union yields.
func Merge(all []iter.Seq2[ID, error]) iter.Seq2[ID, error] {
	return func(yield func(ID, error) bool) {
		var failed error
		heads := make([]head, 0, len(all))
		for _, seq := range all {
			next, stop := iter.Pull2(seq)
			defer stop()
			heads = append(heads, head{next: next})
			heads[len(heads)-1].advance(&failed)
		}
		for {
			low := lowest(heads)
			if low == nil {
				break
			}
			id := low.id
			for i := range heads {
				if heads[i].live && heads[i].id == id {
					heads[i].advance(&failed)
				}
			}
			if !yield(id, nil) {
				return
			}
		}
		if failed != nil {
			yield(ID{}, failed)
		}
	}
}

// head is the front of one sequence.
type head struct {
	next func() (ID, error, bool)
	id   ID
	live bool
}

// advance moves to the next id, and stores the first error in failed.
func (h *head) advance(failed *error) {
	var err error
	h.id, err, h.live = h.next()
	if err != nil {
		h.live = false
		if *failed == nil {
			*failed = err
		}
	}
}

// lowest returns the live head with the lowest id; nil if none is live.
func lowest(heads []head) *head {
	var low *head
	for i := range heads {
		h := &heads[i]
		if h.live && (low == nil || bytes.Compare(h.id[:], low.id[:]) < 0) {
			low = h
		}
	}
	return low
}
