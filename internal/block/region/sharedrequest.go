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
	r := &sharedRequest{bytes: request}
	r.users.Store(1)
	return r
}

// retain adds a user.
func (r *sharedRequest) retain() { r.users.Add(1) }

// release ends the use by one user, whose call had this error.
func (r *sharedRequest) release(err error) {
	if err != nil {
		r.withheld.Store(true)
	}
	if r.users.Add(-1) == 0 && !r.withheld.Load() {
		buffers.Give(r.bytes)
	}
}
