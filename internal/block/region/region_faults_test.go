package region_test

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/globalfs/globalfs/internal/block"
	"github.com/globalfs/globalfs/internal/block/blocktest"
	"github.com/globalfs/globalfs/internal/block/region"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// fault starts or ends one fault.
func (w *world) fault() {
	id := pick(w.random, w.servers())
	other := pick(w.random, w.servers())
	kind := w.random.IntN(17)
	w.mu.Lock()
	w.faults++
	down, sick := w.crashed[id], w.sick[id]
	w.mu.Unlock()
	switch {
	case down && kind < 8:
		w.say("restart %d", id)
		w.restart(id)
	case sick && kind < 8:
		w.say("mend the disk of %d", id)
		w.mend(id)
	case kind == 0 && !down:
		w.say("crash %d", id)
		w.crash(id)
	case kind == 1 && !down:
		w.loseDisk(id)
	case kind <= 3:
		w.rot(id)
	case kind == 4:
		w.vanish(id, other)
	case kind == 5:
		w.disk(id).Slow(time.Duration(w.random.IntN(800)) * time.Millisecond) // with the messages, less than CallTimeout
	case kind == 6:
		w.say("the disk of %d hangs", id)
		w.setSick(id, true)
		w.disk(id).Hang(true)
	case kind == 7:
		w.say("the disk of %d fails", id)
		w.setSick(id, true)
		w.disk(id).Fail(pick(w.random, []error{errors.New("input/output error"), block.ErrNoSpace}))
	case kind == 8:
		w.disk(id).Resize(0) // full
	case kind <= 10 && id != other:
		w.cut(id, other)
	case kind == 11:
		w.join()
	case kind == 12:
		w.leave(true)
	case kind == 13:
		w.leave(false)
	default:
		w.disk(id).Slow(0)
		w.disk(id).Resize(blocktest.Big)
	}
}

// turn changes members, or the set of servers that learn of a change.
func (w *world) turn() {
	w.mu.Lock()
	w.faults++
	w.mu.Unlock()
	switch kind := w.random.IntN(6); {
	case kind == 0:
		w.join()
	case kind < 3:
		w.leave(kind == 1)
	case kind == 3:
		w.disk(pick(w.random, w.servers())).Slow(time.Duration(w.random.IntN(800)) * time.Millisecond)
	default:
		if a, b := pick(w.random, w.servers()), pick(w.random, w.servers()); a != b {
			w.cut(a, b)
		}
	}
}

func (w *world) setSick(id multicast.ProcessID, sick bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sick[id] = sick
}

func (w *world) mend(id multicast.ProcessID) {
	d := w.disk(id)
	d.Hang(false)
	d.Fail(nil)
	d.Slow(0)
	d.Resize(blocktest.Big)
	w.setSick(id, false)
}

func (w *world) crash(id multicast.ProcessID) {
	w.mu.Lock()
	w.crashed[id] = true
	w.mu.Unlock()
	w.region.Crash(id)
}

func (w *world) restart(id multicast.ProcessID) {
	w.region.Restart(w.t, id)
	w.mu.Lock()
	delete(w.crashed, id)
	w.mu.Unlock()
}

// loseDisk replaces a disk by an empty one, if no block loses too many copies by it.
func (w *world) loseDisk(id multicast.ProcessID) {
	w.crash(id) // otherwise it would continue to fill the disk meanwhile
	if w.lose(id, w.disk(id).IDs()) {
		w.say("%d loses its disk", id)
		w.disk(id).Lose()
	}
	w.restart(id)
}

// rot spoils some copies of a server.
func (w *world) rot(id multicast.ProcessID) {
	ids := w.disk(id).IDs()
	for range min(len(ids), 1+w.random.IntN(5)) {
		if rotten := pick(w.random, ids); w.lose(id, []block.ID{rotten}) {
			w.say("the copy of %v on %d rots", rotten, id)
			w.disk(id).Spoil(rotten)
		}
	}
}

// vanish removes some copies from each of two servers, of blocks that both have.
func (w *world) vanish(a, b multicast.ProcessID) {
	both := slices.DeleteFunc(w.disk(a).IDs(), func(id block.ID) bool { return !w.disk(b).Good(id) })
	for range min(len(both)/2, 1+w.random.IntN(3)) {
		for _, from := range []multicast.ProcessID{a, b} {
			if gone := pick(w.random, both); w.lose(from, []block.ID{gone}) {
				w.say("the copy of %v on %d is gone", gone, from)
				w.disk(from).Forget(gone)
			}
		}
	}
}

// lose reports whether these copies may be lost, and counts them.
func (w *world) lose(id multicast.ProcessID, ids []block.ID) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	ids = slices.DeleteFunc(slices.Clone(ids), func(b block.ID) bool { return !w.disk(id).Good(b) })
	for _, b := range ids {
		if w.losses[b] >= w.copies-1 {
			return false
		}
	}
	for _, b := range ids {
		w.losses[b]++
	}
	return true
}

func (w *world) cut(a, b multicast.ProcessID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	pair := [2]multicast.ProcessID{min(a, b), max(a, b)}
	w.cuts[pair] = !w.cuts[pair]
	w.say("cut %v: %v", pair, w.cuts[pair])
	w.region.SetCut(a, b, w.cuts[pair])
}

// join adds a server.
func (w *world) join() {
	w.mu.Lock()
	if len(w.members.Servers) >= 11 {
		w.mu.Unlock()
		return
	}
	id := multicast.ProcessID(1)
	for w.region.Disk(id) != nil {
		id++
	}
	before := w.members
	w.members.Version++
	w.members.Servers = append(slices.Clone(w.members.Servers), region.Server{ID: id, Datacenter: blocktest.Datacenter(id)})
	members := w.members
	w.mu.Unlock()
	w.say("%d joins: version %d", id, members.Version)
	w.region.Add(w.t, id, before, blocktest.NewMemory(blocktest.Big))
	w.region.Run(id)
	w.tell(members)
}

// leave makes a server hand back all its blocks, if enough servers stay; or a leaving server stays after all.
// Some changes are undone at once.
func (w *world) leave(leaving bool) {
	w.mu.Lock()
	var who []int
	staying := 0
	for i, s := range w.members.Servers {
		if s.Leaving != leaving {
			who = append(who, i)
		}
		if !s.Leaving {
			staying++
		}
	}
	if len(who) == 0 || leaving && staying <= max(3, w.copies) {
		w.mu.Unlock()
		return
	}
	i := pick(w.random, who)
	members := w.change(i, leaving)
	w.mu.Unlock()
	w.tell(members)
	if w.random.IntN(2) == 0 {
		time.Sleep(time.Duration(w.random.IntN(3000)) * time.Millisecond) // virtual
		w.mu.Lock()
		members = w.change(i, !leaving)
		w.mu.Unlock()
		w.tell(members)
	}
}

// change makes members in which a server leaves or stays. The caller holds mu.
func (w *world) change(i int, leaving bool) region.Members {
	w.members.Version++
	w.members.Servers = slices.Clone(w.members.Servers)
	w.members.Servers[i].Leaving = leaving
	w.say("%d leaves: %v, version %d", w.members.Servers[i].ID, leaving, w.members.Version)
	return w.members
}

// tell gives new members to one server that is up and knows that it is a member. If there is none, calm does
// it.
func (w *world) tell(members region.Members) {
	servers := slices.Clone(members.Servers)
	w.random.Shuffle(len(servers), func(i, j int) { servers[i], servers[j] = servers[j], servers[i] })
	for _, s := range servers {
		if node := w.region.Node(s.ID); node != nil && slices.ContainsFunc(node.Members().Servers, func(m region.Server) bool { return m.ID == s.ID }) {
			ctx, cancel := context.WithTimeout(w.t.Context(), blocktest.CallTimeout)
			defer cancel()
			if err := node.SetMembers(ctx, members); err == nil {
				return
			}
		}
	}
}
