package mount

import (
	"context"
	"os"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/globalfs/globalfs/internal/client"
	"github.com/globalfs/globalfs/internal/client/clienttest"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// detained passes calls on, and keeps the answer to one of them back.
type detained struct {
	client.Caller
	armed         atomic.Bool
	held, release chan struct{}
}

func (d *detained) Call(ctx context.Context, to multicast.ProcessID, request []byte) ([]byte, error) {
	answer, err := d.Caller.Call(ctx, to, request)
	if d.armed.Swap(false) {
		close(d.held)
		<-d.release
	}
	return answer, err
}

// The answer to a request for the attributes of a directory arrives after a change of the directory through
// the same mount. The kernel, which would cache it for an hour, does not cache it.
func TestAnOldAnswerIsNotCached(t *testing.T) {
	n := clienttest.New(t, spec, time.Minute)
	of := n.Config("us-west-2")
	d := &detained{Caller: of.Caller, held: make(chan struct{}), release: make(chan struct{})}
	of.Caller = d
	c, err := client.New(of)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	m := mountAs(t, n, func(cfg *Config) { cfg.Client, cfg.CacheTime = c, time.Hour })
	runtime.LockOSThread() // so that the kernel is known to have processed the answer to stat
	defer runtime.UnlockOSThread()
	require.NoError(t, os.MkdirAll(m.path("d/a"), 0o755))
	require.EqualValues(t, 3, m.stat(t, "d").Nlink) // the kernel caches that
	d.armed.Store(true)
	old := make(chan uint32, 1)
	go func() {
		var st unix.Statx_t
		_ = unix.Statx(unix.AT_FDCWD, m.path("d"), unix.AT_STATX_FORCE_SYNC, unix.STATX_NLINK, &st)
		old <- st.Nlink
	}()
	<-d.held
	require.NoError(t, os.Mkdir(m.path("d/b"), 0o755))
	close(d.release)
	require.EqualValues(t, 3, <-old)
	require.EqualValues(t, 4, m.stat(t, "d").Nlink)
}
