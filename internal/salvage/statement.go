package salvage

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/globalfs/globalfs/internal/cross"
	"github.com/globalfs/globalfs/internal/invariant"
	"github.com/globalfs/globalfs/internal/replica"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// Statement describes the recovered state, and the possible loss.
type Statement struct {
	Cluster    string      `json:"cluster"`
	Identity   string      `json:"identity"`
	Partitions []Partition `json:"partitions"`
	replica.Recovered
	LostBlocks int      `json:"lost_blocks"`          // that no directory has
	LostFiles  []string `json:"lost_files,omitempty"` // with such blocks, by their paths
	Backup     string   `json:"backup,omitempty"`     // the id of the backup that was made
}

// Partition is the loss of a partition.
type Partition struct {
	ID      uint16    `json:"id"`
	Path    string    `json:"path"`
	Members []Member  `json:"members"`
	Short   bool      `json:"short"`             // it has no majority, and entries may be lost
	Backup  string    `json:"backup,omitempty"`  // without a survivor: the backup that has the state
	Newborn bool      `json:"newborn,omitempty"` // without a survivor: it was being added, and begins empty
	Entries uint64    `json:"entries"`
	Last    time.Time `json:"last_entry"` // by the clock of the server that proposed the entry
	// Seen is the number of entries that other partitions have provably seen beyond Entries: at least as many
	// are lost.
	Seen uint64 `json:"lost_at_least,omitempty"`
}

// Short returns the paths of the partitions that may lose updates.
func (s *Statement) Short() (paths []string) {
	for _, p := range s.Partitions {
		if p.Short {
			paths = append(paths, p.Path)
		}
	}
	return paths
}

// state makes the part of the statement about single partitions.
func (s *Salvage) state() error {
	s.Statement = Statement{Cluster: s.name, Identity: string(s.plan.Identity())}
	for i, x := range s.parts {
		p := Partition{ID: uint16(i), Path: s.plan.Partitions[i].Path, Members: x.members, Short: x.short, Backup: x.backup, Newborn: x.newborn}
		own := x.vector.Of(p.ID)
		p.Entries = own.Count
		at, err := replica.LastTime(x.keys)
		if err != nil {
			return err
		}
		p.Last = time.Unix(0, int64(at)).UTC()
		for _, other := range s.parts {
			if seen := other.vector.Of(p.ID); seen.History == own.History && seen.Count > own.Count {
				p.Seen = max(p.Seen, seen.Count-own.Count)
			}
		}
		if p.Seen > 0 && !p.Short {
			return fmt.Errorf("partition %d (%s) has a majority, and lacks %d entries that others have seen, which is an error of the program: please report it", p.ID, p.Path, p.Seen)
		}
		s.Statement.Partitions = append(s.Statement.Partitions, p)
	}
	return nil
}

// recover makes one sound state of those of all partitions.
func (s *Salvage) recover() (err error) {
	defer func() {
		switch broken := recover().(type) {
		case nil:
		case invariant.Violation:
			err = fmt.Errorf("the surviving states contradict each other, which is an error of the program: please report it: %w", broken)
		default:
			panic(broken)
		}
	}()
	var stores []replica.Keys
	var short []bool
	decisions := map[multicast.MessageID]cross.Decision{}
	for _, x := range s.parts {
		stores, short = append(stores, x.keys), append(short, x.short)
		for id, d := range x.decisions {
			decisions[id] = d
		}
	}
	s.Statement.Recovered, err = replica.Recover(stores, short, decisions, crc32.ChecksumIEEE([]byte(s.scratch)))
	for _, x := range s.parts {
		err = errors.Join(err, x.keys.Commit(true))
	}
	return err
}

// Print writes the statement as text.
func (s *Statement) Print(out io.Writer) {
	for _, p := range s.Partitions {
		state := "complete: a majority of its replicas is there"
		if p.Short {
			state = "MAY LOSE UPDATES: no majority of its replicas is there"
		}
		fmt.Fprintf(out, "partition %d (%s): %s\n", p.ID, p.Path, state)
		for _, m := range p.Members {
			fmt.Fprintf(out, "  %s\n", m.String())
		}
		fmt.Fprintf(out, "  the state has %d entries, the last one of %s\n", p.Entries, p.Last.Format(time.RFC3339))
		switch {
		case p.Newborn:
			fmt.Fprintf(out, "  no replica is left: the partition was being added, and begins empty%s\n", atLeast(p.Seen))
		case p.Backup != "":
			fmt.Fprintf(out, "  no replica is left: the state is that of backup %s; all later updates are lost%s\n", p.Backup, atLeast(p.Seen))
		case p.Short:
			fmt.Fprintf(out, "  it may lack all entries that only the missing replicas have acknowledged%s\n", atLeast(p.Seen))
		}
	}
	for _, c := range s.Commands {
		fmt.Fprintf(out, "command of partitions %s: %s: %s%s\n", list(c.Parties), c.What, outcomeText(&c), lackingText(&c))
	}
	for _, c := range s.Changes {
		fmt.Fprintf(out, "changed: %s\n", c)
	}
	if s.LostBlocks > 0 {
		fmt.Fprintf(out, "%d blocks are in none of the directories; reads of them fail in %d files:\n", s.LostBlocks, len(s.LostFiles))
		for _, f := range s.LostFiles {
			fmt.Fprintf(out, "  %s\n", f)
		}
	}
}

// String describes a member in one line.
func (m *Member) String() string {
	if m.Missing != "" {
		return fmt.Sprintf("server %s: missing: %s", m.Server, m.Missing)
	}
	text := fmt.Sprintf("server %s: epoch %d, %d entries", m.Server, m.Epoch, m.Length)
	if m.Doubt != "" {
		text += ", may lack some: " + m.Doubt
	}
	if m.Chosen {
		text += " (this log counts)"
	}
	return text
}

func atLeast(seen uint64) string {
	if seen == 0 {
		return ""
	}
	return fmt.Sprintf(": at least %d, which other partitions have seen", seen)
}

func outcomeText(c *replica.RecoveredCommand) string {
	switch c.Outcome {
	case cross.Committed:
		return "committed"
	case cross.Unknown:
		return "a party has concluded it, and its outcome is unknown: dropped where it was open"
	}
	return "aborted"
}

func lackingText(c *replica.RecoveredCommand) string {
	if len(c.Lacking) == 0 {
		return ""
	}
	if c.Outcome == cross.Aborted {
		return fmt.Sprintf("; partitions %s have executed it nevertheless", list(c.Lacking))
	}
	return fmt.Sprintf("; its part in partitions %s is lost", list(c.Lacking))
}

func list(partitions []uint16) string {
	words := make([]string, len(partitions))
	for i, p := range slices.Sorted(slices.Values(partitions)) {
		words[i] = fmt.Sprint(p)
	}
	return strings.Join(words, ", ")
}
