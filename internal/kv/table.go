package kv

import (
	"bytes"
	"slices"
	"sort"
)

// entry is a key with its value. A nil value means that the key was deleted; only tables of pending writes
// hold such entries.
type entry struct{ key, value []byte }

// runMax bounds the entries of one run, and so the entries that an insertion moves.
const runMax = 128

// table is an ordered map: sorted runs of entries, in order, none of them empty. Entries are never changed in
// place, so results stay valid.
type table struct {
	runs    [][]entry
	changes uint64 // counts moves of entries, for cursors
}

// find returns the place of key, or the place for its insertion.
func (t *table) find(key []byte) (run, at int, found bool) {
	run = sort.Search(len(t.runs), func(i int) bool { return bytes.Compare(t.runs[i][0].key, key) > 0 }) - 1
	if run < 0 {
		return 0, 0, false
	}
	at, found = slices.BinarySearchFunc(t.runs[run], key, func(e entry, key []byte) int { return bytes.Compare(e.key, key) })
	return run, at, found
}

func (t *table) get(key []byte) (value []byte, ok bool) {
	run, at, found := t.find(key)
	if !found {
		return nil, false
	}
	return t.runs[run][at].value, true
}

// set inserts or replaces an entry.
func (t *table) set(e entry) {
	run, at, found := t.find(e.key)
	if found {
		t.runs[run][at] = e
		return
	}
	t.changes++
	if len(t.runs) == 0 {
		t.runs = append(t.runs, nil)
	}
	t.runs[run] = slices.Insert(t.runs[run], at, e)
	if full := t.runs[run]; len(full) > runMax {
		// A range that grows at its end, as most do, leaves full runs behind.
		cut := runMax / 2
		if at == runMax {
			cut = runMax
		}
		upper := append(make([]entry, 0, runMax+1), full[cut:]...)
		clear(full[cut:])
		t.runs[run] = full[:cut]
		t.runs = slices.Insert(t.runs, run+1, upper)
	}
}

func (t *table) delete(key []byte) {
	run, at, found := t.find(key)
	if !found {
		return
	}
	t.changes++
	t.runs[run] = slices.Delete(t.runs[run], at, at+1)
	if len(t.runs[run]) == 0 {
		t.runs = slices.Delete(t.runs, run, run+1)
	}
}

// reset empties t and keeps a little of its memory.
func (t *table) reset() {
	t.changes++
	if len(t.runs) > 0 {
		first := t.runs[0]
		clear(first[:cap(first)])
		clear(t.runs)
		t.runs = append(t.runs[:0], first[:0])[:0]
	}
}

// cursor walks a table in order. The table may change meanwhile: the cursor gives each key with its value at
// the moment of the visit.
type cursor struct {
	table      *table
	run, index int
	changes    uint64
	past       []byte // everything up to here is behind the cursor
	started    bool   // past is valid
	from       []byte
}

func (t *table) seek(from []byte) cursor {
	c := cursor{table: t, from: from}
	c.settle()
	return c
}

// settle finds the place of the cursor again.
func (c *cursor) settle() {
	c.changes = c.table.changes
	from := c.from
	if c.started {
		from = c.past
	}
	var found bool
	c.run, c.index, found = c.table.find(from)
	if found && c.started {
		c.index++
	}
}

// peek returns the entry ahead.
func (c *cursor) peek() (entry, bool) {
	if c.changes != c.table.changes {
		c.settle()
	}
	for c.run < len(c.table.runs) {
		if c.index < len(c.table.runs[c.run]) {
			return c.table.runs[c.run][c.index], true
		}
		c.run, c.index = c.run+1, 0
	}
	return entry{}, false
}

// pass puts all keys up to key behind the cursor; key must not be less than an earlier argument, and not
// greater than the key ahead.
func (c *cursor) pass(key []byte) {
	if e, ok := c.peek(); ok && bytes.Equal(e.key, key) {
		c.index++
	}
	c.past = append(c.past[:0], key...)
	c.started = true
}
