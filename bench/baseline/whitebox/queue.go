package whitebox

// queue holds messages by their bound and id, the lowest first.
type queue []*message

func (q queue) less(i, j int) bool { return q[i].position().Compare(q[j].position()) < 0 }

func (q queue) swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].slot, q[j].slot = i, j
}

func (q *queue) push(m *message) {
	m.slot = len(*q)
	*q = append(*q, m)
	for s, i := *q, m.slot; i > 0 && s.less(i, (i-1)/2); i = (i - 1) / 2 {
		s.swap(i, (i-1)/2)
	}
}

func (q *queue) pop() *message {
	first, last := (*q)[0], len(*q)-1
	q.swap(0, last)
	(*q)[last] = nil
	*q = (*q)[:last]
	q.down(0)
	return first
}

// raised restores the order after the bound of m went up.
func (q queue) raised(m *message) { q.down(m.slot) }

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

// fifo holds messages in the order in which they were put in.
type fifo struct {
	all  []*message
	head int // of all, those before are gone
}

func (f *fifo) push(m *message) { f.all = append(f.all, m) }

// first is the oldest message, or nil.
func (f *fifo) first() *message {
	if f.head == len(f.all) {
		return nil
	}
	return f.all[f.head]
}

// pop drops the oldest message. When half of the space is unused, the rest moves down.
func (f *fifo) pop() {
	f.all[f.head] = nil
	f.head++
	if 2*f.head >= len(f.all) {
		n := copy(f.all, f.all[f.head:])
		clear(f.all[n:])
		f.all, f.head = f.all[:n], 0
	}
}
