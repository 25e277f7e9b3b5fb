package replica

import (
	"time"

	"github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/order"
	"github.com/globalfs/globalfs/internal/posix"
)

// A bound client must not stop the work of others by recalls of their directories. So the asked replica
// bounds the recalls for each name: the updates and linearizable queries beyond wait here, and the holder
// goes on. Only a recall that disturbs counts, of a directory in which its holder has worked lately. Like the
// bounds of quota.go, this one is no part of the ordered state.
const (
	// recallEvery is the time in which a client gains one recall.
	recallEvery = time.Second
	// recallBurst is the number of recalls after a pause.
	recallBurst = 4
	// workingFor is the time for which a holder counts as working in a directory after a change there.
	workingFor = posix.Time(time.Second)
	// awayShare bounds the time for which recalls of a client take directories from working holders: a
	// client pays so many times as long as the holder was without the directory. It pays awayMost at most: a
	// holder that asks later did not miss the directory.
	awayShare = 20
	awayMost  = 10 * time.Second
	// maxRecallers is the number of remembered clients above which those with a full budget are forgotten.
	maxRecallers = 4096
)

// recallBudget has the recalls of bound clients.
type recallBudget struct {
	used   map[string]time.Duration // by name: when all recalls so far are paid, on the monotonic clock
	wakeAt time.Duration            // when a client that waits may recall; 0: none waits
	away   map[posix.Ino]away       // directories that were recalled, and not held again
}

// away is the last recall of a directory.
type away struct {
	client string
	since  time.Duration
}

// take takes a recall out of the budget of a client, and reports whether the budget has one.
func (b *recallBudget) take(client string, now time.Duration) bool {
	paid := max(b.used[client], now)
	if at := paid - (recallBurst-1)*recallEvery; at > now {
		b.wakeAt = order.Earliest(b.wakeAt, at)
		return false
	}
	if len(b.used) >= maxRecallers {
		for name, at := range b.used {
			if at <= now {
				delete(b.used, name)
			}
		}
	}
	b.used[client] = paid + recallEvery
	return true
}

// takenFor notes that directories are recalled for a client.
func (b *recallBudget) takenFor(client string, dirs []posix.Ino, now time.Duration) {
	for _, dir := range dirs {
		b.away[dir] = away{client, now}
	}
	if len(b.away) > maxRecallers {
		clear(b.away)
	}
}

// heldAgain notes that a directory is held again. The client that has recalled it pays for the time between.
func (b *recallBudget) heldAgain(dir posix.Ino, now time.Duration) {
	if x, known := b.away[dir]; known {
		delete(b.away, dir)
		b.used[x.client] = max(b.used[x.client], x.since+min(awayShare*(now-x.since), awayMost))
	}
}

// mayRecall reports whether a request of a client may recall the directories of some objects now, and takes
// that out of the client's budget.
func (d *delegations) mayRecall(touched []meta.Object, from *ask.Client) bool {
	if from.Bounds() == nil || !d.IsWorkedIn(touched, posix.Time(d.now.Wall)-workingFor) {
		return true
	}
	may := d.budget.take(from.Owner(), d.now.Mono)
	if may {
		d.budget.takenFor(from.Owner(), d.Holders(touched), d.now.Mono)
	}
	return may
}

// delays reports whether an update must wait because its client has recalled too many directories.
func (d *delegations) delays(c *meta.Command, from *ask.Client) bool {
	if from.Bounds() == nil || d.Len() == 0 {
		return false
	}
	touched := meta.Touched(d.machine, c)
	return len(d.Holders(touched)) > 0 && meta.Refused(d.machine, c) == posix.OK && !d.mayRecall(touched, from)
}

// isDue reports whether requests that wait for the budgets of their clients are to be tried again.
func (b *recallBudget) isDue(now time.Duration) bool {
	if b.wakeAt == 0 || now < b.wakeAt {
		return false
	}
	b.wakeAt = 0
	return true
}
