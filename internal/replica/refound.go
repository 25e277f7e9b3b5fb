package replica

import (
	"errors"
	"fmt"

	"github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/internal/cross"
	"github.com/globalfs/globalfs/internal/delegation"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/session"
	"github.com/globalfs/globalfs/internal/varint"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// Refound makes the states of a backup the first states of a new cluster. stores[i] has partition i. It ends
// all commands of several partitions (cross.Conclude), delivers all posts, ends all sessions, and removes
// inodes that only sessions held. The new orders begin without entries, in new histories. The caller commits
// the stores.
func Refound(stores []Keys, hash uint32) (done cross.Concluded, err error) {
	states, clocks, err := openStates(stores)
	if err != nil {
		return done, err
	}
	if done, err = cross.Conclude(states, hash); err != nil {
		return done, err
	}
	for p := range states {
		if err := endSessions(&states[p]); err != nil {
			return done, fmt.Errorf("partition %d: %w", p, err)
		}
	}
	for moved := true; moved; {
		moved = false
		for p := range states {
			moved = reapAll(&states[p], clocks[p]) || moved
			moved = deliverPosts(states, uint16(p), clocks) || moved
		}
	}
	for p, keys := range stores {
		err = errors.Join(err, beginAnew(keys, clocks[p]))
	}
	return done, err
}

// openStates opens the states of all partitions, and reads the progress of each.
func openStates(stores []Keys) (states []cross.State, clocks []stored, err error) {
	for p, keys := range stores {
		machine, err := meta.New(keys, meta.Config{Partition: uint16(p)})
		if err != nil {
			return nil, nil, fmt.Errorf("partition %d: %w", p, err)
		}
		clock, err := loadProgress(keys)
		if err != nil {
			return nil, nil, fmt.Errorf("partition %d: %w", p, err)
		}
		states, clocks = append(states, cross.State{Keys: keys, Machine: machine}), append(clocks, clock)
	}
	return states, clocks, nil
}

// beginAnew makes a state the first state of new orders.
func beginAnew(keys Keys, clock stored) error {
	b := ask.AppendPosition(nil, multicast.Position{})
	keys.Set(positionKey, varint.AppendInt(b, int64(clock.time)))
	keys.Delete(adoptedKey)
	keys.Delete(backupKey)
	keys.Set(digestKey, SumStore(keys).Bytes())
	return keys.Err()
}

// endSessions ends all sessions of a partition, and forgets the ended ones: clients of the new cluster begin
// new sessions.
func endSessions(s *cross.State) error {
	delegation.Clear(s.Keys)
	open, err := session.Clear(s.Keys)
	for _, id := range open {
		s.Machine.EndSession(id)
	}
	return err
}

// reapAll removes all unlinked inodes of a partition. It reports whether there was one.
func reapAll(s *cross.State, clock stored) (reaped bool) {
	for {
		orphans := s.Machine.Orphans(0, maxReap)
		for _, o := range orphans {
			s.Machine.Reap(o.Ino, clock.time)
		}
		left := s.Machine.Orphans(0, maxReap)
		reaped = reaped || len(left) < len(orphans)
		if len(left) == 0 || len(left) == len(orphans) {
			return reaped
		}
	}
}

// deliverPosts delivers the posts of one partition to the other ones. It reports whether there was one.
func deliverPosts(states []cross.State, from uint16, clocks []stored) (moved bool) {
	m := states[from].Machine
	for _, to := range m.Destinations() {
		if int(to) >= len(states) {
			continue
		}
		for out := m.Outbox(to, maxReap); len(out) > 0; out = m.Outbox(to, maxReap) {
			commands := make([]meta.Command, len(out))
			for i := range out {
				commands[i] = out[i].Command
			}
			upTo := states[to].Machine.ExecutePosts(from, out[0].Number, commands, clocks[to].time, 0)
			if upTo < out[0].Number {
				break
			}
			m.Posted(to, upTo)
			moved = true
		}
	}
	return moved
}
