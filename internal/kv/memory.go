package kv

import "bytes"

// NewMemory makes an empty store that lives in memory.
func NewMemory() *Store { return &Store{base: &memory{}} }

// memory keeps committed entries in a table.
type memory struct{ table table }

func (m *memory) get(key []byte) ([]byte, error) {
	value, _ := m.table.get(key)
	return value, nil
}

func (m *memory) ascending() (get func(key []byte) ([]byte, error), end func() error) {
	return m.get, func() error { return nil }
}

func (m *memory) scan(from, to []byte, yield func(key, value []byte) bool) error {
	for c := m.table.seek(from); ; {
		e, ok := c.peek()
		if !ok || to != nil && bytes.Compare(e.key, to) >= 0 || !yield(e.key, e.value) {
			return nil
		}
		c.pass(e.key)
	}
}

func (m *memory) write(pending *table, _ bool) error {
	for _, run := range pending.runs {
		for _, e := range run {
			if e.value == nil {
				m.table.delete(e.key)
			} else {
				m.table.set(e)
			}
		}
	}
	return nil
}

func (m *memory) verify(func(bytes int) bool) error { return nil }

func (m *memory) close() error { return nil }
