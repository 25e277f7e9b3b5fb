package region

import (
	"sync/atomic"

	"github.com/globalfs/globalfs/internal/buffers"
)

// sharedRequest is a request in memory of package buffers that several calls send. The last call that
// releases it returns the memory to package buffers. After a failed call the memory is not returned: the call
// may still be reading it (Caller).
type sharedRequest struct {
	bytes    []byte
	users    atomic.Int32
	withheld atomic.Bool
}

// newSharedRequest makes a request with one user.
func newSharedRequest(request []byte) *sharedRequest {
	l := &sharedRequest{bytes: request}
	l.users.Store(1)
	return l
}

// retain adds a user.
func (l *sharedRequest) retain() { l.users.Add(1) }

// release ends the use by one user, whose call had this error.
func (l *sharedRequest) release(err error) {
	if err != nil {
		l.withheld.Store(true)
	}
	if l.users.Add(-1) == 0 && !l.withheld.Load() {
		buffers.Give(l.bytes)
	}
}
