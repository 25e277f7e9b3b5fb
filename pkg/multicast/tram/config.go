package tram

import (
	"fmt"
	"slices"
	"time"

	"github.com/globalfs/globalfs/pkg/multicast"
)

// Config is the configuration of a process. Groups, Parents, Slots and SlotSize are the same at all
// processes.
type Config struct {
	Self   multicast.ProcessID
	Groups []multicast.Group // the first member of each leads from the start
	// Parents defines the tree: the parent of each group except the root.
	Parents map[multicast.GroupID]multicast.GroupID
	// Slots is the number of slots of each ring, and SlotSize their size in bytes. 0: 64 slots of 512 bytes.
	Slots, SlotSize int
	// Keep bounds the number of log entries that are kept for absent members, and the number that wait for a
	// child group. 0: 1 << 20.
	Keep int
	// SuspectAfter is the time for which work may wait without progress before a member stands as a
	// candidate. 0: 10 ms.
	SuspectAfter time.Duration
	// NoteEvery is the maximum delay of reports of credits and progress while rings have room. 0: 1 ms.
	NoteEvery time.Duration
	// RetryAfter is the time after which a broken queue is reset. 0: 1 ms.
	RetryAfter time.Duration
	Seed       uint64 // of the random part of waiting times
	// Sync is mode sync: an entry counts as held only when it is on the disk of a process, and it is
	// delivered only when it is on the disks of a quorum. Without Sync, the mode is memory: steps have no
	// records, and a process that restarts is Amnesiac.
	Sync bool
	// CheckpointMin is the minimum number of bytes of records between two checkpoints. 0: 1 MiB.
	CheckpointMin int
	// Life is the number of this life of the process: 0 for the first, and higher after each restart.
	Life uint32
	// Successive makes Life a minimum: the number of this life is at least Life, and above that of the log.
	Successive bool
	// Amnesiac means that promises and entries of earlier lives may be lost, or that this process takes over
	// a seat. It has no vote until it has caught up (amnesia.go).
	Amnesiac bool
	// Delivered is the durable progress of the state machine at the start. Deliveries up to it are not
	// repeated.
	Delivered multicast.Progress
	// Redeliver makes the core deliver again all entries that its log holds, also those up to Delivered. The
	// owner passes only some deliveries to its state machine, and reports by Input.Free up to which entry it
	// does not need the log.
	Redeliver bool
	// Seats are the processes that run on other nodes than at the creation of the group, this one included.
	// Other processes run on the node with their own number.
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

// Validate returns an error that names the invalid field and the remedy.
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

// tree is the overlay of section 4 of the paper.
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

// lca returns the lowest common ancestor of destinations, which is the first group to order the message; nil
// if a destination is no group.
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

// reaches reports whether g or a group below g is a destination (reach in the paper).
func (t *tree) reaches(g *group, dest []multicast.GroupID) bool {
	return slices.ContainsFunc(dest, func(id multicast.GroupID) bool {
		at := t.groups[id]
		for at != nil && at != g {
			at = at.parent
		}
		return at != nil
	})
}
