package tram

import (
	"fmt"
	"slices"
	"time"

	"github.com/globalfs/globalfs/pkg/multicast"
)

// Config of a process. All processes have the same Groups, Parents, Slots and SlotSize.
type Config struct {
	Self   multicast.ProcessID
	Groups []multicast.Group // the first member of each leads at the beginning
	// Parents is the tree: the parent of each group but the root.
	Parents map[multicast.GroupID]multicast.GroupID
	// Slots of each ring, SlotSize bytes each. 0: 64 slots of 512 bytes.
	Slots, SlotSize int
	// Keep is how many entries of the log are kept for members that are away, and how many may wait for a
	// child group. 0: 1 << 20.
	Keep int
	// SuspectAfter is how long work may wait without progress until a member replaces the leader. 0: 10 ms.
	SuspectAfter time.Duration
	// NoteEvery is how late credits and progress are reported while there is room. 0: 1 ms.
	NoteEvery time.Duration
	// RetryAfter is after how long a broken queue is reset. 0: 1 ms.
	RetryAfter time.Duration
	Seed       uint64 // of waiting times
	// Sync: each entry that this process holds is on its disk before it counts, and an entry on the disks of
	// a quorum before it is delivered. Without it no step has records: a process that restarts is Amnesiac.
	Sync bool
	// CheckpointMin is how many bytes of records a checkpoint replaces at least. 0: 1 MiB.
	CheckpointMin int
	// Life numbers the lives of the process: 0 is the first, and each restart has a higher one.
	Life uint32
	// Successive: Life is the least number of this life. It is the one after that of the log, if that is
	// higher.
	Successive bool
	// Amnesiac: the promises and entries of earlier lives may be lost, or the process takes a seat over. It
	// has no vote until it has caught up.
	Amnesiac bool
	// Delivered is the durable progress of the state machine at the start. It is not delivered again.
	Delivered multicast.Progress
	// Redeliver: entries up to Delivered are delivered again at the start, as far as the log has them. The
	// owner hands only some of the deliveries to its state machine: Input.Free says up to where the log is
	// not needed.
	Redeliver bool
	// Seats are the processes that have moved to other nodes since the beginning, this one included. A
	// process runs on the node with its own number otherwise.
	Seats []Seat
}

func (cfg *Config) setDefaults() {
	for _, d := range []struct {
		field *int
		value int
	}{{&cfg.Slots, 64}, {&cfg.SlotSize, 512}, {&cfg.Keep, 1 << 20}, {&cfg.CheckpointMin, 1 << 20}} {
		if *d.field == 0 {
			*d.field = d.value
		}
	}
	for _, d := range []struct {
		field *time.Duration
		value time.Duration
	}{{&cfg.SuspectAfter, 10 * time.Millisecond}, {&cfg.NoteEvery, time.Millisecond}, {&cfg.RetryAfter, time.Millisecond}} {
		if *d.field == 0 {
			*d.field = d.value
		}
	}
}

// Bounds of a configuration.
const (
	maxMembers = 16
	maxProcess = 1<<28 - 1 // the name of a region holds a process
	minSlots   = 4
)

// Validate names the field that is wrong and the remedy.
func (cfg *Config) Validate() error {
	switch {
	case cfg.Slots < minSlots || cfg.Slots > 1<<20:
		return fmt.Errorf("tram: Slots: %d is not within %d and %d", cfg.Slots, minSlots, 1<<20)
	case cfg.SlotSize%8 != 0 || cfg.SlotSize < 128 || cfg.SlotSize > 1<<20:
		return fmt.Errorf("tram: SlotSize: %d is not a multiple of 8 within 128 and %d", cfg.SlotSize, 1<<20)
	case cfg.Keep < cfg.Slots:
		return fmt.Errorf("tram: Keep: %d entries are fewer than the %d slots of a ring", cfg.Keep, cfg.Slots)
	case cfg.CheckpointMin < 0:
		return fmt.Errorf("tram: CheckpointMin: %d: give 0 or more", cfg.CheckpointMin)
	case cfg.Life > maxLife:
		return fmt.Errorf("tram: Life: %d: a process has at most %d lives", cfg.Life, maxLife)
	case cfg.Amnesiac && cfg.Life == 0:
		return fmt.Errorf("tram: Amnesiac: a process loses its memory by a restart: give Life above 0")
	case cfg.SuspectAfter < 0 || cfg.NoteEvery < 0 || cfg.RetryAfter < 0:
		return fmt.Errorf("tram: SuspectAfter %v, NoteEvery %v, RetryAfter %v: give 0 or more", cfg.SuspectAfter, cfg.NoteEvery, cfg.RetryAfter)
	}
	seen := map[multicast.ProcessID]bool{}
	for _, g := range cfg.Groups {
		if len(g.Members) == 0 || len(g.Members) > maxMembers {
			return fmt.Errorf("tram: Groups: group %d has %d members: give 1 to %d", g.ID, len(g.Members), maxMembers)
		}
		for _, p := range g.Members {
			if p == 0 || p > maxProcess || seen[p] {
				return fmt.Errorf("tram: Groups: process %d of group %d: give each process a number of its own, up to %d", p, g.ID, maxProcess)
			}
			seen[p] = true
		}
	}
	if !seen[cfg.Self] {
		return fmt.Errorf("tram: Self: process %d is in no group", cfg.Self)
	}
	_, err := newTree(cfg.Groups, cfg.Parents)
	return err
}

// group is a group and its place in the tree.
type group struct {
	multicast.Group
	parent   *group
	children []*group // by id
	depth    int
}

// tree is the overlay (paper, section 4).
type tree struct {
	groups map[multicast.GroupID]*group
	of     map[multicast.ProcessID]*group
}

func newTree(groups []multicast.Group, parents map[multicast.GroupID]multicast.GroupID) (*tree, error) {
	t := &tree{groups: map[multicast.GroupID]*group{}, of: map[multicast.ProcessID]*group{}}
	for _, g := range groups {
		if t.groups[g.ID] != nil {
			return nil, fmt.Errorf("tram: Groups: there are two groups %d", g.ID)
		}
		t.groups[g.ID] = &group{Group: g}
	}
	roots := 0
	for _, g := range groups {
		node := t.groups[g.ID]
		for _, p := range g.Members {
			t.of[p] = node
		}
		id, has := parents[g.ID]
		if !has {
			roots++
			continue
		}
		if node.parent = t.groups[id]; node.parent == nil {
			return nil, fmt.Errorf("tram: Parents: group %d has the parent %d, which is no group", g.ID, id)
		}
		node.parent.children = append(node.parent.children, node)
	}
	for _, g := range t.groups {
		slices.SortFunc(g.children, func(a, b *group) int { return int(a.ID) - int(b.ID) })
		for up := g.parent; up != nil; up = up.parent {
			if g.depth++; g.depth > len(groups) {
				return nil, fmt.Errorf("tram: Parents: group %d is its own ancestor", g.ID)
			}
		}
	}
	if roots != 1 {
		return nil, fmt.Errorf("tram: Parents: %d groups have no parent: exactly one is the root", roots)
	}
	return t, nil
}

// lca is the lowest common ancestor of destinations: the highest group that orders the message. It is nil if
// one of them is no group.
func (t *tree) lca(dest []multicast.GroupID) *group {
	var at *group
	for _, id := range dest {
		g := t.groups[id]
		if g == nil {
			return nil
		}
		if at == nil {
			at = g
		}
		for at != g {
			if at.depth >= g.depth {
				at = at.parent
			} else {
				g = g.parent
			}
		}
	}
	return at
}

// reaches reports whether a destination is g or below g (the paper's reach).
func (t *tree) reaches(g *group, dest []multicast.GroupID) bool {
	return slices.ContainsFunc(dest, func(id multicast.GroupID) bool {
		at := t.groups[id]
		for at != nil && at != g {
			at = at.parent
		}
		return at != nil
	})
}
