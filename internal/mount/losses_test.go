package mount

import (
	"context"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/internal/client"
	"github.com/globalfs/globalfs/internal/client/clienttest"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// refusing is a Caller whose servers refuse batches of logs.
type refusing struct {
	client.Caller
	on atomic.Bool
}

func (r *refusing) Call(ctx context.Context, to multicast.ProcessID, request []byte) ([]byte, error) {
	if q, err := ask.DecodeRequest(request); r.on.Load() && err == nil && q.Kind == ask.Update && meta.Op(q.Command[0]) == meta.OpBatch {
		refused := ask.Reply{Status: ask.Refused, Result: []byte("as told")}
		return refused.Append(nil), nil
	}
	return r.Caller.Call(ctx, to, request)
}

// fsync of each open file and directory that lost changes concern reports the loss once. close reports it,
// too, without an effect on fsync. The mount reports it once. The next process does not repeat reports.
func TestLossesOfHeldDirectories(t *testing.T) {
	n := clienttest.New(t, spec, time.Minute)
	var servers refusing
	var holding *client.Client
	m := mountAs(t, n, func(cfg *Config) {
		of := n.Config("us-west-2")
		servers.Caller = of.Caller
		of.Delegate, of.CacheNames, of.Caller = true, true, &servers
		c, err := client.New(of)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, c.Close()) })
		cfg.Client, holding = c, c
	})
	require.NoError(t, os.Mkdir(m.path("d"), 0o755))
	require.NoError(t, os.Mkdir(m.path("other"), 0o755))
	openDir := func() *os.File {
		f, err := os.Open(m.path("d"))
		require.NoError(t, err)
		return f
	}
	dir, f, g := openDir(), create(t, m.path("d/f")), create(t, m.path("other/g"))
	require.NoError(t, f.Sync())
	servers.on.Store(true)
	require.NoError(t, os.Link(m.path("d/f"), m.path("d/lost"))) // concerns the file and the directory
	require.Eventually(t, func() bool { return holding.Holding().Lost > 0 }, 30*time.Second, time.Millisecond)
	servers.on.Store(false)
	h := holding.Holding()
	require.Len(t, h.Losses, 1)
	require.Equal(t, "a server refused the batch", h.Losses[0].Reason)

	d, err := unix.Dup(int(f.Fd()))
	require.NoError(t, err)
	require.ErrorIs(t, unix.Close(d), unix.EIO)
	require.ErrorIs(t, f.Sync(), unix.EIO)
	require.NoError(t, f.Sync())
	require.NoError(t, g.Sync(), "its directory and its content are as they were")
	sync := func() error {
		_, err := unix.Getxattr(m.dir, XattrSync, make([]byte, 4096))
		return err
	}
	require.ErrorIs(t, sync(), unix.EIO)
	require.NoError(t, sync())
	handed, err := m.mount.Handover(t.Context())
	require.NoError(t, err)
	of, err := ClientState(handed)
	require.NoError(t, err)
	cfg := n.Config("us-west-2")
	cfg.Resume = of
	c, err := client.New(cfg)
	require.NoError(t, err)
	next, err := Take(Config{Client: c, Dir: m.dir}, handed)
	require.NoError(t, err)
	m.mount.Leave()
	require.NoError(t, sync())
	require.NoError(t, f.Sync())
	require.ErrorIs(t, dir.Sync(), unix.EIO)
	require.NoError(t, dir.Sync())
	later := openDir()
	require.NoError(t, later.Sync(), "it was opened later")
	for _, file := range []*os.File{dir, f, g, later} {
		require.NoError(t, file.Close())
	}
	_, err = os.Stat(filepath.Join(m.dir, "d", "lost"))
	require.ErrorIs(t, err, os.ErrNotExist)
	require.NoError(t, next.Unmount())
	require.NoError(t, c.Close())
}

func create(t *testing.T, path string) *os.File {
	t.Helper()
	f, err := os.Create(path)
	require.NoError(t, err)
	return f
}
