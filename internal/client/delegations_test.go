package client_test

import (
	"context"
	"fmt"
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

// delegating makes a client that holds the directories that it makes.
func delegating(t *testing.T, n *clienttest.Network) *client.Client {
	t.Helper()
	cfg := n.Config(west)
	cfg.Delegate, cfg.CacheNames = true, true
	c, err := client.New(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

func makeDir(t *testing.T, c *client.Client, dir posix.Ino, name string) posix.Attr {
	t.Helper()
	a, err := c.Mkdir(t.Context(), root, at(dir, name), 0o755)
	require.NoError(t, err)
	return a
}

func listNames(t *testing.T, c *client.Client, dir posix.Ino) (names []string) {
	t.Helper()
	entries, _, err := c.ReadDir(t.Context(), dir, 0, 1000)
	require.NoError(t, err)
	for i := range entries {
		names = append(names, entries[i].Name)
	}
	return names
}

// Changes in a held directory are visible at once to this client. They need few ordered commands, and Persist
// waits for them.
func TestChangesInAHeldDirectory(t *testing.T) {
	inBubble(t, func(t *testing.T, n *clienttest.Network) {
		c, other := delegating(t, n), n.Client(t, east)
		dir := makeDir(t, c, posix.Root, "d")
		before := n.Ordered(0)
		sub := makeDir(t, c, dir.Ino, "sub")
		for i := range 80 { // fewer operations than a full batch
			name := fmt.Sprint(i)
			a := create(t, c, sub.Ino, name)
			write(t, c, a.Ino, 0, []byte(name))
			require.NoError(t, c.Rename(t.Context(), root, at(sub.Ino, name), at(dir.Ino, name), 0))
			require.Equal(t, name, string(read(t, c, a.Ino, 0, 10)))
			_, err := c.Lookup(t.Context(), sub.Ino, name)
			require.ErrorIs(t, err, posix.ENOENT)
			c.Release(a.Ino)
		}
		require.Equal(t, before, n.Ordered(0), "nothing is ordered yet")
		require.Len(t, listNames(t, c, dir.Ino), 81)
		version := c.Version(dir.Ino)
		require.NoError(t, c.Unlink(t.Context(), root, at(dir.Ino, "0")))
		require.NotEqual(t, version, c.Version(dir.Ino))
		require.NoError(t, c.Persist(t.Context(), dir.Ino))
		require.LessOrEqual(t, n.Ordered(0), before+5)
		require.NoError(t, other.Wait(t.Context(), c.Token()))
		require.Equal(t, listNames(t, c, dir.Ino), listNames(t, other, dir.Ino))
		for _, name := range []string{"7", "79", "sub"} {
			mine, err := c.Lookup(t.Context(), dir.Ino, name)
			require.NoError(t, err)
			theirs, err := other.Lookup(t.Context(), dir.Ino, name)
			require.NoError(t, err)
			require.Equal(t, mine, theirs, "the order changes nothing that was told")
		}
		require.NoError(t, c.GiveBack(t.Context()))
		n.Check(t)
	})
}

// An update of another client waits until the holder has returned the directory, and sees all that the holder
// has answered. A query does not wait.
func TestAnotherClientChangesAHeldDirectory(t *testing.T) {
	inBubble(t, func(t *testing.T, n *clienttest.Network) {
		c, other := delegating(t, n), n.Client(t, east)
		dir := makeDir(t, c, posix.Root, "d")
		a := create(t, c, dir.Ino, "f")
		require.Empty(t, listNames(t, other, dir.Ino), "not ordered yet")
		_, err := other.Create(t.Context(), root, at(dir.Ino, "f"), 0o644, meta.Exclusive)
		require.ErrorIs(t, err, posix.EEXIST)
		b := create(t, other, dir.Ino, "g")
		c.Observe(other.Proofs())
		require.Equal(t, []string{"f", "g"}, listNames(t, c, dir.Ino))
		create(t, c, dir.Ino, "h")
		require.NoError(t, other.Wait(t.Context(), c.Token()))
		require.Equal(t, []string{"f", "g", "h"}, listNames(t, other, dir.Ino))
		require.NotEqual(t, a.Ino, b.Ino)
		n.Check(t)
	})
}

// A command of several partitions takes a file out of a held directory.
func TestAFileLeavesAHeldDirectory(t *testing.T) {
	inBubble(t, func(t *testing.T, n *clienttest.Network) {
		c, other := delegating(t, n), n.Client(t, east)
		dir := makeDir(t, c, posix.Root, "d")
		for _, by := range []*client.Client{other, c} {
			create(t, c, dir.Ino, "f")
			require.NoError(t, c.Persist(t.Context(), dir.Ino))
			require.NoError(t, other.Wait(t.Context(), c.Token()))
			local, err := by.Lookup(t.Context(), posix.Root, string(east))
			require.NoError(t, err)
			require.NoError(t, by.Rename(t.Context(), root, at(dir.Ino, "f"), at(local.Ino, fmt.Sprint(by == c)), 0))
			c.Observe(other.Proofs())
			require.Empty(t, listNames(t, c, dir.Ino))
		}
		n.Check(t)
	})
}

// A change elsewhere is ordered after all changes in held directories before it.
func TestChangesElsewhereComeAfterTheLog(t *testing.T) {
	inBubble(t, func(t *testing.T, n *clienttest.Network) {
		c, other := delegating(t, n), n.Client(t, east)
		dir := makeDir(t, c, posix.Root, "d")
		local, err := c.Lookup(t.Context(), posix.Root, string(east))
		require.NoError(t, err)
		var all []multicast.ProcessID
		for _, region := range spec.Regions {
			all = append(all, n.Processes(0, region)...)
		}
		n.Fail(clienttest.Busy, all...)
		create(t, c, dir.Ino, "first")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = c.Create(ctx, root, at(local.Ino, "second"), 0o644, meta.Exclusive)
		require.Error(t, err)
		require.Empty(t, listNames(t, other, local.Ino))
		n.Fail(clienttest.None, all...)
		create(t, c, local.Ino, "second")
		require.Equal(t, []string{"first"}, listNames(t, other, dir.Ino))
	})
}

// If the session of the holder ends, the log is lost: Losses reports it, and the directory is free.
func TestALogIsLostWithItsSession(t *testing.T) {
	inBubble(t, func(t *testing.T, n *clienttest.Network) {
		c, other := delegating(t, n), n.Client(t, east)
		dir := makeDir(t, c, posix.Root, "d")
		create(t, c, dir.Ino, "kept")
		require.NoError(t, c.Persist(t.Context(), dir.Ino))
		c.Suspend()
		time.Sleep(2 * lease)
		create(t, other, dir.Ino, "other")
		c.Resume()
		c.Observe(other.Proofs())
		require.Equal(t, []string{"kept", "other"}, listNames(t, c, dir.Ino))
	})
}

// A client that was away for most of its lease, as a machine that was asleep, answers no change before it has
// renewed its session.
func TestNoChangeIsAnsweredWithoutALease(t *testing.T) {
	inBubble(t, func(t *testing.T, n *clienttest.Network) {
		c := delegating(t, n)
		dir := makeDir(t, c, posix.Root, "d")
		require.NoError(t, c.Persist(t.Context(), dir.Ino))
		all := n.Processes(0, west)
		n.Fail(clienttest.Silent, all...)
		create(t, c, dir.Ino, "soon")
		require.Error(t, c.Persist(t.Context(), dir.Ino))
		n.Fail(clienttest.None, all...)
		require.NoError(t, c.Persist(t.Context(), dir.Ino))
		n.Fail(clienttest.Silent, all...)
		time.Sleep(lease - client.DefaultRenew) // fake time
		_, err := c.Create(t.Context(), root, at(dir.Ino, "late"), 0o644, meta.Exclusive)
		require.ErrorIs(t, err, posix.ETIMEDOUT)
		n.Fail(clienttest.None, all...)
		create(t, c, dir.Ino, "again")
		require.Equal(t, []string{"soon", "again"}, listNames(t, c, dir.Ino))
	})
}

// Servers of older versions do not know the operation: the client works without it.
func TestServersThatDoNotDelegate(t *testing.T) {
	inBubble(t, func(t *testing.T, n *clienttest.Network) {
		cfg := n.Config(west)
		cfg.Delegate = true
		calls := &undelegating{Caller: cfg.Caller}
		cfg.Caller = calls
		c, err := client.New(cfg)
		require.NoError(t, err)
		defer func() { require.NoError(t, c.Close()) }()
		dir := makeDir(t, c, posix.Root, "d")
		create(t, c, dir.Ino, "f")
		require.Equal(t, []string{"f"}, listNames(t, n.Client(t, west), dir.Ino))
		require.Positive(t, calls.refused)
		makeDir(t, c, posix.Root, "e")
		require.EqualValues(t, 1, calls.refused, "it does not ask again soon")
	})
}

// undelegating answers delegations as servers of older versions do.
type undelegating struct {
	client.Caller
	refused int
}

func (r *undelegating) Call(ctx context.Context, to multicast.ProcessID, request []byte) ([]byte, error) {
	if q, err := ask.DecodeRequest(request); err == nil && q.Kind == ask.Update && meta.Op(q.Command[0]) >= meta.OpDelegate {
		r.refused++
		refused := ask.Reply{Status: ask.Refused, Result: []byte("command: unknown operation 22")}
		return refused.Append(nil), nil
	}
	return r.Caller.Call(ctx, to, request)
}

// Changes that are not ordered when the session of the holder ends are lost. The next fsync of each open file
// reports the loss, by Losses. The client continues with another log.
func TestChangesAreLostWithTheSession(t *testing.T) {
	inBubble(t, func(t *testing.T, n *clienttest.Network) {
		c, other := delegating(t, n), n.Client(t, east)
		dir := makeDir(t, c, posix.Root, "d")
		create(t, c, dir.Ino, "kept")
		require.NoError(t, c.Persist(t.Context(), dir.Ino))
		require.Zero(t, c.Losses())
		all := n.Processes(0, west)
		n.Fail(clienttest.Silent, all...)
		create(t, c, dir.Ino, "lost")
		time.Sleep(2 * client.DefaultTimeout) // fake time
		_, err := c.Create(t.Context(), root, at(dir.Ino, "waits"), 0o644, meta.Exclusive)
		require.Error(t, err, "the servers have not answered for a while")
		n.Fail(clienttest.None, all...)
		time.Sleep(3 * lease) // fake time: the client has not renewed its session
		n.Tick()
		n.Tick()
		_ = c.Persist(t.Context(), dir.Ino) // finds out, or waits for nothing
		require.EqualValues(t, 1, c.Losses())
		c.Observe(other.Proofs())
		require.Equal(t, []string{"kept"}, listNames(t, c, dir.Ino))
		h := c.Holding()
		require.Zero(t, h.Directories)
		require.Zero(t, h.Unordered)
		require.EqualValues(t, 1, h.Lost)
		next := makeDir(t, c, posix.Root, "e")
		create(t, c, next.Ino, "f")
		require.Equal(t, 1, c.Holding().Directories)
		require.NoError(t, c.Persist(t.Context(), next.Ino))
		require.NoError(t, other.Wait(t.Context(), c.Token()))
		require.Equal(t, []string{"f"}, listNames(t, other, next.Ino))
		n.Check(t)
	})
}

// The attributes of a held directory are those of the log, also in answers for its parent, which is not held,
// and after the cache has learned the ordered ones.
func TestAttributesOfAHeldDirectory(t *testing.T) {
	inBubble(t, func(t *testing.T, n *clienttest.Network) {
		c := delegating(t, n)
		dir := makeDir(t, c, posix.Root, "d")
		require.NoError(t, c.Persist(t.Context(), dir.Ino))
		for i := range 20 { // the client asks for all names of the root
			_, err := c.Lookup(t.Context(), posix.Root, fmt.Sprint("absent", i))
			require.ErrorIs(t, err, posix.ENOENT)
			time.Sleep(time.Second) // fake time: the stream goes on
		}
		ordered, err := c.GetAttr(t.Context(), dir.Ino)
		require.NoError(t, err)
		require.Equal(t, client.Uncovered, c.Covers(&ordered, time.Second), "no replica reports the changes of the log")
		for links := range uint32(3) {
			makeDir(t, c, dir.Ino, fmt.Sprint(links))
			now, err := c.GetAttr(t.Context(), dir.Ino)
			require.NoError(t, err)
			require.Equal(t, 3+links, now.Nlink)
			found, err := c.Lookup(t.Context(), posix.Root, "d")
			require.NoError(t, err)
			require.Equal(t, now, found)
			entries, _, err := c.ReadDir(t.Context(), posix.Root, 0, 1000)
			require.NoError(t, err)
			for i := range entries {
				if e := &entries[i]; e.Attr.Ino == dir.Ino {
					require.Equal(t, posix.Attr{Ino: dir.Ino, Mode: dir.Mode.Type()}, e.Attr, "the kernel asks for the rest")
				}
			}
		}
		cfg := n.Config(west)
		cfg.Delegate = true // and without a cache, whose look waits for the stream
		bare, err := client.New(cfg)
		require.NoError(t, err)
		defer func() { require.NoError(t, bare.Close()) }()
		second := n.Client(t, west)
		parent := makeDir(t, second, posix.Root, "p")
		require.NoError(t, bare.Wait(t.Context(), second.Token()))
		other := makeDir(t, bare, parent.Ino, "e")
		require.NoError(t, bare.Persist(t.Context(), other.Ino))
		makeDir(t, bare, other.Ino, "sub")
		found, err := bare.Lookup(t.Context(), parent.Ino, "e")
		require.NoError(t, err)
		require.EqualValues(t, 3, found.Nlink, "the replica does not know of it yet")
		held, err := c.GetAttr(t.Context(), dir.Ino)
		require.NoError(t, err)
		require.NoError(t, c.GiveBack(t.Context()))
		free, err := c.Lookup(t.Context(), posix.Root, "d")
		require.NoError(t, err)
		require.Equal(t, held, free)
	})
}
