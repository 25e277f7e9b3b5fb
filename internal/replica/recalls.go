package replica

import (
	"time"

	"github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/order"
	"github.com/globalfs/globalfs/internal/posix"
)

// A bound client must not stop the work of others by recalls of their directories. There are two limits.
// First, a directory is protected for some time after such a recall (delegation.Table). Second, the asked
// replica limits the recalls of each client: further updates and linearizable queries wait at this replica,
// while the holder continues to work. The second limit counts only recalls of directories in which the holder
// has worked lately. Like the bounds of quota.go, it is no part of the ordered state. Only the protection
// limits commands of several partitions.
const (
	// recallEvery is the time in which a client gains one recall.
	recallEvery = time.Second
	// recallBurst is the number of recalls after a pause.
	recallBurst = 4
	// workingFor is the time for which a holder counts as working in a directory after a change there.
	workingFor = posix.Time(time.Second)
	// maxRecallers is the number of remembered clients above which those with a full budget are forgotten.
	maxRecallers = 4096
)

// recallBudget has the recalls of bound clients.
type recallBudget struct {
	used   map[string]time.Duration // by client name: when the client has its full budget again, on the monotonic clock
	wakeAt time.Duration            // when a waiting client may recall; 0: no client waits
}

// take subtracts a recall from the budget of a client. It returns false if the budget is exhausted.
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

// mayRecall reports whether a request of a client may recall the directories of some objects now. If so, it
// subtracts the recall from the client's budget.
func (d *delegations) mayRecall(touched []meta.Object, from *ask.Client) bool {
	switch {
	case from.Bounds() == nil:
		return true
	case d.awaitProtection(touched):
		return false
	}
	return !d.IsWorkedIn(touched, posix.Time(d.now.Wall)-workingFor) || d.budget.take(from.Owner(), d.now.Mono)
}

// awaitProtection reports whether one of some objects is protected from recalls by bound clients. If so, the
// replica takes a step at the end of the protection.
func (d *delegations) awaitProtection(touched []meta.Object) bool {
	now := posix.Time(d.now.Wall)
	left := d.ProtectedUntil(touched, now) - now
	if left <= 0 {
		return false
	}
	d.budget.wakeAt = order.Earliest(d.budget.wakeAt, d.now.Mono+time.Duration(left))
	return true
}

// delays reports whether an update must wait because its client has recalled too many directories.
func (d *delegations) delays(c *meta.Command, from *ask.Client) bool {
	if from.Bounds() == nil || d.Len() == 0 {
		return false
	}
	touched := meta.Touched(d.machine, c)
	return len(d.Holders(touched)) > 0 && meta.Refused(d.machine, c) == posix.OK && !d.mayRecall(touched, from)
}

// isDue reports whether requests that wait for the budgets of their clients must be tried again.
func (b *recallBudget) isDue(now time.Duration) bool {
	if b.wakeAt == 0 || now < b.wakeAt {
		return false
	}
	b.wakeAt = 0
	return true
}
