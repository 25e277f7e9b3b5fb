package region

import (
	"sync/atomic"

	"github.com/globalfs/globalfs/internal/buffers"
)

// lent is a request in memory of package buffers that several calls send. The last one that releases it gives
// the memory back. After a failed call the memory stays away: the call may still be reading it (Caller).
type lent struct {
	bytes    []byte
	users    atomic.Int32
	withheld atomic.Bool
}

// newLent makes a request with one user.
func newLent(request []byte) *lent {
	l := &lent{bytes: request}
	l.users.Store(1)
	return l
}

// use adds a user.
func (l *lent) use() { l.users.Add(1) }

// release ends the use by one user, whose call had this error.
func (l *lent) release(err error) {
	if err != nil {
		l.withheld.Store(true)
	}
	if l.users.Add(-1) == 0 && !l.withheld.Load() {
		buffers.Give(l.bytes)
	}
}
