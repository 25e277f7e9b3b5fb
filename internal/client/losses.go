package client

import (
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/globalfs/globalfs/internal/delegation"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
)

// Bounds of the records of losses.
const (
	maxLostInodes = 1 << 14 // beyond, a loss concerns all inodes
	maxLostEvents = 8       // that Holding names
)

// losses are the events in which answered operations were lost. A program must learn of each event at least
// once through each open file and directory that it concerns, and once through the mount. The caller compares
// the counts with those that it has reported.
type losses struct {
	report func(meta.Change) // reports an inode or name whose state differs from the answers that programs got

	mu     sync.Mutex
	known  LossState // GUARDED_BY mu
	recent []Loss    // GUARDED_BY mu; the newest last
}

// LossState is the counts of losses, for another process that continues.
type LossState struct {
	Events uint64               `json:"events"`       // all
	All    uint64               `json:"all"`          // that may concern any inode
	Of     map[posix.Ino]uint64 `json:"of,omitempty"` // the others, by inode
}

// Loss is one event.
type Loss struct {
	When      time.Time `json:"when"`
	Partition uint16    `json:"partition"`
	Changes   int       `json:"changes"`
	Reason    string    `json:"reason"`
	Names     []string  `json:"names"` // some of the changed names or inodes
}

// add records that operations are lost.
func (l *losses) add(x Loss, ops []delegation.Op) {
	inos := concerned(ops)
	for i := range ops {
		c := &ops[i].Command
		for _, at := range []Name{{c.Ino, c.Name}, {c.NewParent, c.NewName}} {
			if at.Dir != 0 && at.Name != "" {
				l.report(meta.Change{Kind: meta.ChangedName, Ino: at.Dir, Name: at.Name})
			}
		}
	}
	for ino := range inos {
		l.report(meta.Change{Kind: meta.ChangedAttr, Ino: ino})
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.known.Events++
	if len(l.recent) == maxLostEvents {
		l.recent = append([]Loss(nil), l.recent[1:]...)
	}
	l.recent = append(l.recent, x)
	if l.known.Of == nil {
		l.known.Of = map[posix.Ino]uint64{}
	}
	if len(l.known.Of)+len(inos) > maxLostInodes {
		l.known.All++
		return
	}
	for ino := range inos {
		l.known.Of[ino]++
	}
}

// concerned returns the files and directories that operations change.
func concerned(ops []delegation.Op) map[posix.Ino]bool {
	inos := map[posix.Ino]bool{}
	for i := range ops {
		if c := &ops[i].Command; ops[i].Return == 0 {
			inos[c.Ino], inos[c.NewParent], inos[c.Child] = true, true, true
		}
	}
	delete(inos, 0)
	return inos
}

func (l *losses) events() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.known.Events
}

func (l *losses) of(ino posix.Ino) uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.known.All + l.known.Of[ino]
}

func (l *losses) last() []Loss {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]Loss{}, l.recent...)
}

// state returns the counts for another process. It adds others, a number of losses that concern all inodes.
// Nil: there was no loss.
func (l *losses) state(others uint64) *LossState {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := LossState{Events: l.known.Events + others, All: l.known.All + others, Of: maps.Clone(l.known.Of)}
	if s.Events == 0 {
		return nil
	}
	return &s
}

// adopt continues from the counts of another process; nil: it had none.
func (l *losses) adopt(s *LossState) {
	if s != nil {
		l.known = LossState{s.Events, s.All, maps.Clone(s.Of)}
	}
}

// describe names some operations: the name, or the inode if an operation changes no name.
func describe(ops []delegation.Op) (names []string) {
	seen := map[string]bool{}
	for i := range ops {
		c := &ops[i].Command
		if ops[i].Return != 0 {
			continue
		}
		name := fmt.Sprintf("%s in inode %d", c.Name, c.Ino)
		switch {
		case c.NewName != "":
			name = fmt.Sprintf("%s in inode %d", c.NewName, c.NewParent)
		case c.Name == "":
			name = fmt.Sprintf("inode %d", c.Ino)
		}
		if !seen[name] && len(names) < maxNamed {
			seen[name] = true
			names = append(names, name)
		}
	}
	return names
}
