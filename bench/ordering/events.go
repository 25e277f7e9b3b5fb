package ordering

import "time"

// event is something that happens at a time; events of the same time happen in the order in which they
// were scheduled.
type event struct {
	at   time.Duration
	seq  uint64
	what func()
}

func (e *event) before(other *event) bool {
	return e.at < other.at || e.at == other.at && e.seq < other.seq
}

// events is a binary heap, written out since container/heap boxes every event.
type events []event

func (h *events) push(e event) {
	*h = append(*h, e)
	s := *h
	for i := len(s) - 1; i > 0; {
		parent := (i - 1) / 2
		if !s[i].before(&s[parent]) {
			break
		}
		s[i], s[parent] = s[parent], s[i]
		i = parent
	}
}

func (h *events) pop() event {
	s := *h
	first, last := s[0], len(s)-1
	s[0], s[last] = s[last], event{}
	s = s[:last]
	*h = s
	for i := 0; ; {
		child := 2*i + 1
		if child >= last {
			return first
		}
		if right := child + 1; right < last && s[right].before(&s[child]) {
			child = right
		}
		if !s[child].before(&s[i]) {
			return first
		}
		s[i], s[child] = s[child], s[i]
		i = child
	}
}
