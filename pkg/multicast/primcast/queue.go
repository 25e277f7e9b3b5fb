package primcast

import "github.com/globalfs/globalfs/pkg/multicast"

// queue is a heap of messages by position: the lowest one is the first.
type queue []*message

func (q queue) less(i, j int) bool { return q[i].position().Compare(q[j].position()) < 0 }

func (q queue) swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].slot, q[j].slot = i, j
}

func (q *queue) push(m *message) {
	m.slot = len(*q)
	*q = append(*q, m)
	q.up(m.slot)
}

func (q *queue) remove(m *message) {
	at, last := m.slot, len(*q)-1
	q.swap(at, last)
	(*q)[last] = nil
	*q = (*q)[:last]
	if at < last {
		q.down(at)
		q.up(at)
	}
}

// raised restores the heap after the position of m has increased.
func (q queue) raised(m *message) { q.down(m.slot) }

func (q queue) up(i int) {
	for i > 0 && q.less(i, (i-1)/2) {
		q.swap(i, (i-1)/2)
		i = (i - 1) / 2
	}
}

func (q queue) down(i int) {
	for {
		child := 2*i + 1
		if child >= len(q) {
			return
		}
		if child+1 < len(q) && q.less(child+1, child) {
			child++
		}
		if !q.less(child, i) {
			return
		}
		q.swap(i, child)
		i = child
	}
}

// lowest returns the lowest message in the subtree of i for which wanted is true; best, if that is lower or
// there is none.
func (q queue) lowest(i int, wanted func(*message) bool, best *message) *message {
	switch {
	case i >= len(q) || best != nil && best.position().Compare(q[i].position()) <= 0:
		return best
	case wanted(q[i]):
		return q[i]
	}
	return q.lowest(2*i+2, wanted, q.lowest(2*i+1, wanted, best))
}

// below returns the highest timestamp that is at most limit and below the positions of all messages.
func (q queue) below(limit multicast.Timestamp) multicast.Timestamp {
	if len(q) > 0 {
		limit = min(limit, q[0].bound-1)
	}
	return limit
}
