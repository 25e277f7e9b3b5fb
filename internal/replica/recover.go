package replica

import (
	"fmt"
	"slices"

	"github.com/globalfs/globalfs/internal/cross"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/turn"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// Recovered is the result of Recover.
type Recovered struct {
	Commands []RecoveredCommand `json:"commands"` // commands of several partitions that were undecided, or cannot be completed
	Changes  []string           `json:"changes"`  // names and inodes that were changed to make one sound tree
}

// RecoveredCommand is a command of several partitions that Recover has ended.
type RecoveredCommand struct {
	What        string        `json:"command"`
	Parties     []uint16      `json:"parties"`
	Coordinator uint16        `json:"coordinator"`
	Outcome     cross.Outcome `json:"outcome"`
	Executed    []uint16      `json:"executed,omitempty"` // parties at which the recovery has executed the command
	Lacking     []uint16      `json:"lacking,omitempty"`  // parties whose state lacks the outcome of the command
}

// Recover makes the surviving states of all partitions the first states of a new cluster. stores[i] has
// partition i, and short[i] reports whether it may lack its last entries. Recover ends all commands of
// several partitions (cross.Settle), and makes one sound tree (meta.Reconcile). It ends all sessions, and
// removes inodes that only sessions held. The new orders begin without entries, in new histories. The caller
// commits the stores.
func Recover(stores []Keys, short []bool, decisions map[multicast.MessageID]cross.Decision, hash uint32) (done Recovered, err error) {
	done = Recovered{Commands: []RecoveredCommand{}, Changes: []string{}}
	states, clocks, err := openStates(stores)
	if err != nil {
		return done, err
	}
	ended, err := cross.Settle(states, short, decisions, hash)
	if err != nil {
		return done, err
	}
	keys := make([]meta.Keys, len(stores))
	var now posix.Time
	for p := range states {
		keys[p] = stores[p]
		now = max(now, clocks[p].time)
		if err := endSessions(&states[p]); err != nil {
			return done, fmt.Errorf("partition %d: %w", p, err)
		}
	}
	for i := range ended {
		e := &ended[i]
		done.Commands = append(done.Commands, RecoveredCommand{
			What: meta.Describe(keys, &e.Command), Parties: e.Parties, Coordinator: e.Coordinator, Outcome: e.Outcome,
			Executed: e.Executed, Lacking: e.Lacking,
		})
	}
	changes, err := meta.Reconcile(keys, short, now)
	if err != nil {
		return done, err
	}
	done.Changes = append(done.Changes, changes...)
	for p := range stores {
		if err := beginAnew(stores[p], clocks[p]); err != nil {
			return done, fmt.Errorf("partition %d: %w", p, err)
		}
		if bad := meta.Check(keys[p]); len(bad) > 0 {
			return done, fmt.Errorf("partition %d is not sound after the recovery, which is an error of the program: please report it: %q", p, bad)
		}
	}
	if bad := meta.CheckAll(keys); len(bad) > 0 {
		return done, fmt.Errorf("the partitions make no sound tree after the recovery, which is an error of the program: please report it: %q", bad)
	}
	return done, nil
}

// finishAtOnce bounds the number of entries in one batch of Finish.
const finishAtOnce = 1024

// Finish executes the entries of the own order that the log of a stopped replica has and its store lacks. The
// replica must not be stepped afterwards.
func (r *Replica) Finish(entries []multicast.Delivery) error {
	for chunk := range slices.Chunk(entries, finishAtOnce) {
		var out turn.Output
		out.Deliveries = chunk
		if _, err := r.Apply(&out); err != nil {
			return err
		}
	}
	return r.keys.Commit(true)
}

// Decisions adds to into the outcomes of commands of several partitions that entries of an own order contain.
func Decisions(entries []multicast.Delivery, into map[multicast.MessageID]cross.Decision) {
	for i := range entries {
		if id, d, found := cross.DecisionOf(entries[i].Payload); found {
			into[id] = d
		}
	}
}

// LastTime returns the time of the newest entry that a store has executed.
func LastTime(keys meta.Keys) (posix.Time, error) {
	p, err := loadProgress(keys)
	return p.time, err
}
