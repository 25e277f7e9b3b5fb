package client_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/internal/client"
	"github.com/globalfs/globalfs/internal/client/clienttest"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// counting counts the queries of a client. With old set it answers as servers of older versions do.
type counting struct {
	client.Caller
	queries atomic.Int64
	watches atomic.Int64
	old     bool
}

func (c *counting) Call(ctx context.Context, to multicast.ProcessID, request []byte) ([]byte, error) {
	switch ask.Kind(request[0]) {
	case ask.Query:
		c.queries.Add(1)
	case ask.Watch:
		c.watches.Add(1)
		if c.old {
			refused := ask.Reply{Status: ask.Refused, Result: []byte("request: unknown kind 8")}
			return refused.Append(nil), nil
		}
	}
	return c.Caller.Call(ctx, to, request)
}

// caching makes a client that caches names.
func caching(t *testing.T, n *clienttest.Network, old bool) (*client.Client, *counting) {
	t.Helper()
	cfg := n.Config("us-west-2")
	calls := &counting{Caller: cfg.Caller, old: old}
	cfg.Caller, cfg.CacheNames = calls, true
	c, err := client.New(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c, calls
}

const patience = 30 * time.Second

// isAbsent looks a name up that does not exist.
func isAbsent(t *testing.T, c *client.Client, dir posix.Ino, name string) {
	t.Helper()
	_, err := c.Lookup(t.Context(), dir, name)
	require.ErrorIs(t, err, posix.ENOENT)
}

// awaitCached waits until a look at an absent name needs no call.
func awaitCached(t *testing.T, c *client.Client, calls *counting, dir posix.Ino, name string) {
	t.Helper()
	require.Eventually(t, func() bool {
		before := calls.queries.Load()
		isAbsent(t, c, dir, name)
		return calls.queries.Load() == before
	}, patience, time.Millisecond)
}

// An absent name stays known as long as the replica answers, between its answers, too.
func TestAbsentNamesStayKnown(t *testing.T) {
	inBubble(t, func(t *testing.T, n *clienttest.Network) {
		c, calls := caching(t, n, false)
		for range 5 {
			isAbsent(t, c, posix.Root, "x")
			time.Sleep(time.Second)
		}
		before := calls.queries.Load()
		for range 400 {
			time.Sleep(20 * time.Millisecond)
			isAbsent(t, c, posix.Root, "x")
		}
		require.Equal(t, before, calls.queries.Load())
	})
}

// A directory that has not changed is listed again without a call, with the newest attributes. A change by
// another client ends that.
func TestListingsStayKnown(t *testing.T) {
	inBubble(t, func(t *testing.T, n *clienttest.Network) {
		c, calls := caching(t, n, false)
		other := n.Client(t, "us-west-2")
		file := create(t, other, posix.Root, "file").Ino
		list := func() (names []string, size uint64, asked int64) {
			t.Helper()
			time.Sleep(time.Second)
			before := calls.queries.Load()
			entries, state, err := c.ReadDir(t.Context(), posix.Root, 0, 100)
			require.NoError(t, err)
			require.NotZero(t, state.Last)
			for _, e := range entries {
				if names = append(names, e.Name); e.Attr.Ino == file {
					size = e.Attr.Size
				}
			}
			return names, size, calls.queries.Load() - before
		}
		_, _, _ = list() // the stream begins, perhaps after the answer
		first, _, _ := list()
		require.Contains(t, first, "file")
		again, _, asked := list()
		require.Equal(t, first, again)
		require.Zero(t, asked)
		write(t, other, file, 0, []byte("content"))
		_, size, asked := list()
		require.EqualValues(t, 7, size)
		require.EqualValues(t, 1, asked)
		_, size, asked = list()
		require.EqualValues(t, 7, size)
		require.Zero(t, asked)
		require.NoError(t, other.Unlink(t.Context(), posix.Cred{}, client.Name{Dir: posix.Root, Name: "file"}))
		left, _, asked := list()
		require.NotContains(t, left, "file")
		require.EqualValues(t, 1, asked)
	})
}

// A replica that has too many requests to watch still answers other queries: they stay at the nearest
// replica.
func TestWatchesGoElsewhereAlone(t *testing.T) {
	inBubble(t, func(t *testing.T, n *clienttest.Network) {
		cfg := n.Config("us-west-2")
		nearest := n.Processes(0, "us-west-2")[:1]
		refusing := &refusing{Caller: cfg.Caller, near: nearest}
		cfg.Caller, cfg.CacheNames = refusing, true
		c, err := client.New(cfg)
		require.NoError(t, err)
		defer func() { require.NoError(t, c.Close()) }()
		isAbsent(t, c, posix.Root, "x")
		for range 100 {
			time.Sleep(20 * time.Millisecond)
			_, err := c.GetAttr(t.Context(), posix.Root)
			require.NoError(t, err)
		}
		require.Positive(t, refusing.watched.Load())
		require.Zero(t, refusing.far.Load())
	})
}

// refusing refuses to watch at some processes, and counts the queries to the others.
type refusing struct {
	client.Caller
	near         []multicast.ProcessID
	far, watched atomic.Int64
}

func (c *refusing) Call(ctx context.Context, to multicast.ProcessID, request []byte) ([]byte, error) {
	switch isNear := slices.Contains(c.near, to); {
	case isNear && ask.Kind(request[0]) == ask.Watch:
		return (&ask.Reply{Status: ask.Overloaded}).Append(nil), nil
	case ask.Kind(request[0]) == ask.Watch:
		c.watched.Add(1)
	case !isNear && ask.Kind(request[0]) == ask.Query:
		c.far.Add(1)
	}
	return c.Caller.Call(ctx, to, request)
}

// A file is made in a directory of the client's own without a query to the servers, and so are files in a
// directory after the client has listed its names.
func TestCreateIsOneCall(t *testing.T) {
	n := clienttest.New(t, spec, time.Minute)
	c, calls := caching(t, n, false)
	isAbsent(t, c, posix.Root, "own") // the client watches the partition from now on
	awaitCached(t, c, calls, posix.Root, "own")
	own, err := c.Mkdir(t.Context(), posix.Cred{}, client.Name{Dir: posix.Root, Name: "own"}, 0o755)
	require.NoError(t, err)
	awaitCached(t, c, calls, own.Ino, "before") // a renewal or the like may have been ordered
	queries := int64(0)
	for i := range 50 {
		name := fmt.Sprint("file", i)
		awaitCached(t, c, calls, own.Ino, name)
		before := calls.queries.Load()
		_, err := c.Create(t.Context(), posix.Cred{}, client.Name{Dir: own.Ino, Name: name}, 0o644, 0)
		require.NoError(t, err)
		queries += calls.queries.Load() - before
		found, err := c.Lookup(t.Context(), own.Ino, name)
		require.NoError(t, err)
		require.True(t, found.Mode.IsRegular())
		require.NoError(t, c.Unlink(t.Context(), posix.Cred{}, client.Name{Dir: own.Ino, Name: name}))
		awaitCached(t, c, calls, own.Ino, name)
		c.Release(found.Ino)
	}
	require.Zero(t, queries)

	other := n.Client(t, "us-west-2")
	_, err = other.Mkdir(t.Context(), posix.Cred{}, client.Name{Dir: posix.Root, Name: "theirs"}, 0o755)
	require.NoError(t, err)
	c.Observe(other.Proofs())
	theirs, err := c.Lookup(t.Context(), posix.Root, "theirs")
	require.NoError(t, err)
	for i := range 8 {
		isAbsent(t, c, theirs.Ino, fmt.Sprint(i))
	}
	i := 0
	require.Eventually(t, func() bool { // the names are listed
		i++
		before := calls.queries.Load()
		isAbsent(t, c, theirs.Ino, fmt.Sprint("never asked for ", i))
		return calls.queries.Load() == before
	}, patience, time.Millisecond)
}

// A rename, a link and the removal of a name are one call each, with the look at everything that they change
// before and afterwards.
func TestChangesOfNamesAreOneCall(t *testing.T) {
	n := clienttest.New(t, spec, time.Minute)
	c, calls := caching(t, n, false)
	ctx, cred := t.Context(), posix.Cred{}
	isAbsent(t, c, posix.Root, "x")
	awaitCached(t, c, calls, posix.Root, "x")
	from, err := c.Mkdir(ctx, cred, at(posix.Root, "from"), 0o755)
	require.NoError(t, err)
	to, err := c.Mkdir(ctx, cred, at(posix.Root, "to"), 0o755)
	require.NoError(t, err)
	isKnown := func(ino posix.Ino, links uint32) posix.Attr {
		t.Helper()
		a, err := c.GetAttr(ctx, ino)
		require.NoError(t, err)
		require.Equal(t, links, a.Nlink)
		return a
	}
	awaitCached(t, c, calls, from.Ino, "x") // a renewal or the like may have been ordered
	before := calls.queries.Load()
	for range 20 {
		a, b := create(t, c, from.Ino, "a").Ino, create(t, c, to.Ino, "b").Ino
		_, err := c.Link(ctx, cred, b, at(from.Ino, "b2"))
		require.NoError(t, err)
		isKnown(b, 2)
		require.NoError(t, c.Rename(ctx, cred, at(from.Ino, "a"), at(to.Ino, "b"), 0))
		isKnown(a, 1)
		isKnown(b, 1)
		require.EqualValues(t, 1, isKnown(from.Ino, 2).Size)
		require.EqualValues(t, 1, isKnown(to.Ino, 2).Size)
		isAbsent(t, c, from.Ino, "a")
		found, err := c.Lookup(ctx, to.Ino, "b")
		require.NoError(t, err)
		require.Equal(t, a, found.Ino)
		require.NoError(t, c.Rename(ctx, cred, at(to.Ino, "b"), at(from.Ino, "b2"), meta.RenameExchange))
		require.NoError(t, c.Rename(ctx, cred, at(to.Ino, "b"), at(from.Ino, "b2"), 0))
		require.NoError(t, c.Unlink(ctx, cred, at(from.Ino, "b2")))
		require.Zero(t, isKnown(from.Ino, 2).Size)
		c.Release(a)
		c.Release(b)
	}
	// A renewal of the session is an entry of the order that the stream has to report.
	require.LessOrEqual(t, calls.queries.Load()-before, int64(5))
}

// The client learns the changes of other clients, and a change that it has seen of another client stays
// visible.
func TestChangesOfOthersAreTold(t *testing.T) {
	n := clienttest.New(t, spec, time.Minute)
	c, calls := caching(t, n, false)
	notified := make(chan string, 100)
	c.OnChange(func(x meta.Change) {
		if x.Kind == meta.ChangedName && x.Ino == posix.Root {
			notified <- x.Name
		}
	})
	isAbsent(t, c, posix.Root, "x")
	awaitCached(t, c, calls, posix.Root, "x")
	other := n.Client(t, "us-west-2")
	_, err := other.Mkdir(t.Context(), posix.Cred{}, client.Name{Dir: posix.Root, Name: "x"}, 0o755)
	require.NoError(t, err)
	select {
	case name := <-notified:
		require.Equal(t, "x", name)
	case <-time.After(patience):
		t.Fatal("the change was not reported")
	}
	_, err = c.Lookup(t.Context(), posix.Root, "x")
	require.NoError(t, err)
	for i := range 50 {
		name := fmt.Sprint("next", i)
		awaitCached(t, c, calls, posix.Root, name)
		_, err := other.Mkdir(t.Context(), posix.Cred{}, client.Name{Dir: posix.Root, Name: name}, 0o755)
		require.NoError(t, err)
		c.Observe(other.Proofs())
		_, err = c.Lookup(t.Context(), posix.Root, name)
		require.NoError(t, err, "it was told that the name is there")
		require.NoError(t, other.Rmdir(t.Context(), posix.Cred{}, client.Name{Dir: posix.Root, Name: name}))
		c.Observe(other.Proofs())
		isAbsent(t, c, posix.Root, name)
	}
}

// A name that cannot be is refused as ever.
func TestNamesThatAreNotCached(t *testing.T) {
	n := clienttest.New(t, spec, time.Minute)
	c, calls := caching(t, n, false)
	own, err := c.Mkdir(t.Context(), posix.Cred{}, client.Name{Dir: posix.Root, Name: "own"}, 0o755)
	require.NoError(t, err)
	isAbsent(t, c, own.Ino, "x")
	awaitCached(t, c, calls, own.Ino, "x")
	_, err = c.Lookup(t.Context(), own.Ino, string(make([]byte, posix.MaxName+1)))
	require.ErrorIs(t, err, posix.ENAMETOOLONG)
	parent, err := c.Lookup(t.Context(), own.Ino, "..")
	require.NoError(t, err)
	require.Equal(t, posix.Root, parent.Ino)
}

// With servers of an older version, names are looked up as before.
func TestServersThatCannotWatch(t *testing.T) {
	n := clienttest.New(t, spec, time.Minute)
	c, calls := caching(t, n, true)
	for range 20 {
		before := calls.queries.Load()
		isAbsent(t, c, posix.Root, "x")
		require.Greater(t, calls.queries.Load(), before)
	}
	_, err := c.Create(t.Context(), posix.Cred{}, client.Name{Dir: posix.Root, Name: "x"}, 0o644, 0)
	require.NoError(t, err)
	_, err = c.Lookup(t.Context(), posix.Root, "x")
	require.NoError(t, err)
	require.LessOrEqual(t, calls.watches.Load(), int64(2))
}

// While the watched replica is silent, names are looked up at the others; when it continues, names are cached
// again.
func TestWatchedReplicaIsSilent(t *testing.T) {
	n := clienttest.New(t, spec, time.Minute)
	c, calls := caching(t, n, false)
	isAbsent(t, c, posix.Root, "x")
	awaitCached(t, c, calls, posix.Root, "x")
	for _, r := range n.Plan.Partitions[0].Replicas {
		n.Fail(clienttest.Down, r.Process)
	}
	require.Eventually(t, func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		_, err := c.Lookup(ctx, posix.Root, "x")
		return !errors.Is(err, posix.ENOENT)
	}, patience, time.Millisecond, "the stream was cut")
	for _, r := range n.Plan.Partitions[0].Replicas {
		n.Fail(clienttest.None, r.Process)
	}
	awaitCached(t, c, calls, posix.Root, "x")
}
