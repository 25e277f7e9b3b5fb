package meta

import (
	"fmt"

	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/varint"
)

// Rule determines the partitions of new inodes in a directory (thesis 3.3.2: the partitioning function).
type Rule struct {
	// Spread has the partitions over which new children are distributed by a hash of their names. Empty:
	// children are made in the partition of the directory.
	Spread []uint16
	// Region is the region that the user asked for, as text; empty: none.
	Region string
}

// Placement is a Rule in the table of partition 0.
type Placement struct {
	Dir    posix.Ino
	Target uint16 // partition to which the directory was to be moved
	Rule   Rule
}

// Task is a subtree that is being moved to another partition, and its progress.
type Task struct {
	Dir    posix.Ino
	Target uint16
	Moved  uint64 // number of inodes that were moved
	Paused bool
}

// Place returns the partition for a new child of a directory; here is the partition of the directory.
func (r *Rule) Place(here uint16, name string) uint16 {
	if len(r.Spread) == 0 {
		return here
	}
	h := uint64(14695981039346656037) // FNV-1a
	for i := range len(name) {
		h = (h ^ uint64(name[i])) * 1099511628211
	}
	return r.Spread[h%uint64(len(r.Spread))]
}

// Append appends the encoding of r.
func (r *Rule) Append(b []byte) []byte {
	b = varint.AppendUint(b, uint64(len(r.Spread)))
	for _, p := range r.Spread {
		b = varint.AppendUint(b, p)
	}
	return varint.AppendBytes(b, r.Region)
}

func readRule(r *varint.Reader) (rule Rule) {
	for n := r.Count(); n > 0 && r.Err() == nil; n-- {
		rule.Spread = append(rule.Spread, r.Uint16())
	}
	rule.Region = r.String()
	return rule
}

// DecodeRule reads a rule.
func DecodeRule(b []byte) (Rule, error) {
	r := varint.NewReader(b)
	rule := readRule(r)
	if err := r.Done(); err != nil {
		return Rule{}, fmt.Errorf("rule: %w", err)
	}
	return rule, nil
}

// AppendPlacements appends the encoding of rows.
func AppendPlacements(b []byte, rows []Placement) []byte {
	b = varint.AppendUint(b, uint64(len(rows)))
	for i := range rows {
		p := &rows[i]
		b = varint.AppendUint(b, p.Dir)
		b = varint.AppendUint(b, p.Target)
		b = p.Rule.Append(b)
	}
	return b
}

// DecodePlacements decodes rows from the Result.Data of OpRules.
func DecodePlacements(b []byte) (rows []Placement, err error) {
	r := varint.NewReader(b)
	for n := r.Count(); n > 0 && r.Err() == nil; n-- {
		rows = append(rows, Placement{Dir: posix.Ino(r.Uint64()), Target: r.Uint16(), Rule: readRule(r)})
	}
	if err := r.Done(); err != nil {
		return nil, fmt.Errorf("placements: %w", err)
	}
	return rows, nil
}

// AppendTasks appends the encoding of tasks.
func AppendTasks(b []byte, tasks []Task) []byte {
	b = varint.AppendUint(b, uint64(len(tasks)))
	for i := range tasks {
		t := &tasks[i]
		b = varint.AppendUint(b, t.Dir)
		b = append(b, t.encode()...)
	}
	return b
}

// DecodeTasks decodes tasks from the Result.Data of OpTasks.
func DecodeTasks(b []byte) (tasks []Task, err error) {
	r := varint.NewReader(b)
	for n := r.Count(); n > 0 && r.Err() == nil; n-- {
		tasks = append(tasks, readTask(r, posix.Ino(r.Uint64())))
	}
	if err := r.Done(); err != nil {
		return nil, fmt.Errorf("tasks: %w", err)
	}
	return tasks, nil
}
