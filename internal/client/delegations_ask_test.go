package client_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/internal/client"
	"github.com/globalfs/globalfs/internal/client/clienttest"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
)

// holds waits for the end of a request for a directory.
func holds(t *testing.T, c *client.Client, dirs int) {
	t.Helper()
	time.Sleep(time.Second) // fake time
	require.Equal(t, dirs, c.Holding().Directories)
}

// A client that works alone in an existing directory holds the directory, with its files, after some changes.
// Then it answers from the log, and knows all names, also absent ones, and all content.
func TestAnExistingDirectoryIsHeld(t *testing.T) {
	inBubble(t, func(t *testing.T, n *clienttest.Network) {
		c, other := delegating(t, n), n.Client(t, east)
		dir := makeDir(t, other, posix.Root, "d")
		makeDir(t, other, dir.Ino, "sub")
		for i := range 10 {
			a := create(t, other, dir.Ino, fmt.Sprint("old", i))
			write(t, other, a.Ino, 0, []byte(fmt.Sprint("text", i)))
			other.Release(a.Ino)
		}
		big := create(t, other, dir.Ino, "big")
		write(t, other, big.Ino, 0, make([]byte, 100_000))
		require.NoError(t, other.SetXattr(t.Context(), root, big.Ino, "user.a", []byte("1"), 0))
		c.Observe(other.Proofs())
		for i := range 3 {
			create(t, c, dir.Ino, fmt.Sprint("new", i))
		}
		holds(t, c, 1)
		before := n.Ordered(0)
		a, err := c.Lookup(t.Context(), dir.Ino, "old3")
		require.NoError(t, err)
		require.Equal(t, "text3", string(read(t, c, a.Ino, 0, 10)))
		write(t, c, a.Ino, 4, []byte("three"))
		require.Equal(t, "textthree", string(read(t, c, a.Ino, 0, 10)))
		_, err = c.Lookup(t.Context(), dir.Ino, "absent")
		require.ErrorIs(t, err, posix.ENOENT)
		require.NoError(t, c.Unlink(t.Context(), root, at(dir.Ino, "old4")))
		require.NoError(t, c.Rename(t.Context(), root, at(dir.Ino, "old5"), at(dir.Ino, "old6"), 0))
		value, err := c.GetXattr(t.Context(), big.Ino, "user.a")
		require.NoError(t, err)
		require.Equal(t, "1", string(value))
		write(t, c, big.Ino, 50_000, []byte("middle"))
		_, err = c.Create(t.Context(), root, at(dir.Ino, "old7"), 0o644, meta.Exclusive)
		require.ErrorIs(t, err, posix.EEXIST)
		require.Equal(t, before, n.Ordered(0), "nothing is ordered yet")
		require.NoError(t, c.Persist(t.Context(), dir.Ino))
		require.NoError(t, other.Wait(t.Context(), c.Token()))
		require.Equal(t, listNames(t, c, dir.Ino), listNames(t, other, dir.Ino))
		mine, err := c.GetAttr(t.Context(), big.Ino)
		require.NoError(t, err)
		theirs, err := other.GetAttr(t.Context(), big.Ino)
		require.NoError(t, err)
		require.Equal(t, mine, theirs)
		require.Equal(t, "middle", string(read(t, other, big.Ino, 50_000, 6)))
		require.NoError(t, c.Rmdir(t.Context(), root, at(dir.Ino, "sub")), "it asks for what it lacks")
		require.Equal(t, 1, c.Holding().Directories)
		_, err = c.Lookup(t.Context(), dir.Ino, "sub")
		require.ErrorIs(t, err, posix.ENOENT)
		require.NoError(t, c.GiveBack(t.Context()))
		require.Zero(t, c.Holding().Lost)
		n.Check(t)
	})
}

// A client that works alone on files of an existing directory, and changes no name there, holds it as well.
func TestTheDirectoryOfAFileIsHeld(t *testing.T) {
	for name, find := range map[string]func(t *testing.T, c *client.Client, dir posix.Ino){
		"looked up": func(t *testing.T, c *client.Client, dir posix.Ino) {
			_, err := c.Lookup(t.Context(), dir, "log")
			require.NoError(t, err)
		},
		"listed": func(t *testing.T, c *client.Client, dir posix.Ino) { listNames(t, c, dir) },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, n *clienttest.Network) {
				c, other := delegating(t, n), n.Client(t, east)
				dir := makeDir(t, other, posix.Root, "d")
				file := create(t, other, dir.Ino, "log")
				linked := create(t, other, dir.Ino, "linked")
				_, err := other.Link(t.Context(), root, linked.Ino, at(posix.Root, "second"))
				require.NoError(t, err)
				c.Observe(other.Proofs())
				find(t, c, dir.Ino)
				for range 3 {
					write(t, c, linked.Ino, 0, []byte("x"))
				}
				holds(t, c, 0) // a file with several names is in no directory
				write(t, c, file.Ino, 0, []byte("one "))
				write(t, c, file.Ino, 4, []byte("two "))
				_, err = c.SetAttr(t.Context(), root, file.Ino, meta.SetMode, posix.Attr{Mode: 0o600})
				require.NoError(t, err)
				holds(t, c, 1)
				before := n.Ordered(0)
				write(t, c, file.Ino, 8, []byte("three"))
				require.Equal(t, before, n.Ordered(0), "nothing is ordered yet")
				require.NoError(t, c.Persist(t.Context(), file.Ino))
				require.NoError(t, other.Wait(t.Context(), c.Token()))
				require.Equal(t, "one two three", string(read(t, other, file.Ino, 0, 100)))
				require.NoError(t, c.GiveBack(t.Context()))
				n.Check(t)
			})
		})
	}
}

// A directory with much metadata is not held: the copy would fill the memory of the mount.
func TestALargeDirectoryIsNotHeld(t *testing.T) {
	inBubble(t, func(t *testing.T, n *clienttest.Network) {
		c, other := delegating(t, n), n.Client(t, east)
		dir := makeDir(t, other, posix.Root, "d")
		for i := range 300 { // 18 MB
			a := create(t, other, dir.Ino, fmt.Sprint("file", i))
			require.NoError(t, other.SetXattr(t.Context(), root, a.Ino, "user.a", make([]byte, 60<<10), 0))
			other.Release(a.Ino)
		}
		c.Observe(other.Proofs())
		for i := range 10 {
			create(t, c, dir.Ino, fmt.Sprint("new", i))
			time.Sleep(time.Second) // fake time
		}
		holds(t, c, 0)
		create(t, other, dir.Ino, "other")
		require.Zero(t, c.Holding().Lost)
		n.Check(t)
	})
}

// A directory that was recalled is held again after a pause, which grows, and not while others change it.
func TestARecalledDirectoryRests(t *testing.T) {
	inBubble(t, func(t *testing.T, n *clienttest.Network) {
		c, other := delegating(t, n), n.Client(t, east)
		dir := makeDir(t, other, posix.Root, "d")
		c.Observe(other.Proofs())
		made := 0
		work := func() {
			for range 4 {
				made++
				create(t, c, dir.Ino, fmt.Sprint("own", made))
			}
		}
		work()
		holds(t, c, 1)
		create(t, other, dir.Ino, "foreign")
		c.Observe(other.Proofs())
		for range 20 { // both work there
			work()
			made++
			create(t, other, dir.Ino, fmt.Sprint("foreign", made))
			c.Observe(other.Proofs())
			holds(t, c, 0)
		}
		require.EqualValues(t, 1, c.Holding().Recalls)
		time.Sleep(16 * time.Second) // fake time: the other one has gone
		work()
		holds(t, c, 1)
		require.Contains(t, listNames(t, c, dir.Ino), "foreign")
		create(t, other, dir.Ino, "again")
		c.Observe(other.Proofs())
		time.Sleep(12 * time.Second) // fake time: enough after the first recall
		work()
		holds(t, c, 0)
		require.NoError(t, c.GiveBack(t.Context()))
		n.Check(t)
	})
}

// Updates of the client itself that are under way when it asks do not recall the directory.
func TestAClientDoesNotRecallItsOwnDirectory(t *testing.T) {
	inBubble(t, func(t *testing.T, n *clienttest.Network) {
		c, other := delegating(t, n), n.Client(t, east)
		dir := makeDir(t, other, posix.Root, "d")
		c.Observe(other.Proofs())
		done := make(chan error)
		for i := range 8 {
			go func() {
				for j := range 30 {
					a, err := c.Create(t.Context(), root, at(dir.Ino, fmt.Sprint(i, ".", j)), 0o644, meta.Exclusive)
					if err == nil {
						err = c.Persist(t.Context(), a.Ino)
					}
					if err != nil {
						done <- err
						return
					}
				}
				done <- nil
			}()
		}
		for range 8 {
			require.NoError(t, <-done)
		}
		holds(t, c, 1)
		require.Zero(t, c.Holding().Recalls)
		require.Len(t, listNames(t, c, dir.Ino), 240)
		require.NoError(t, c.GiveBack(t.Context()))
		require.Len(t, listNames(t, n.Client(t, west), dir.Ino), 240)
		n.Check(t)
	})
}

// A client requests numbers of grants only in partitions whose replicas all know them.
func TestNumbersOfGrants(t *testing.T) {
	for _, grants := range []client.Grants{client.PlainGrants, client.NumberedGrants} {
		inBubble(t, func(t *testing.T, n *clienttest.Network) {
			var requests, numbered atomic.Int64
			cfg := n.Config(west)
			cfg.Delegate, cfg.CacheNames = true, true
			cfg.Grants = func(uint16) client.Grants { return grants }
			cfg.Caller = caller{n, func(q *ask.Request) *ask.Reply {
				cmd, err := meta.DecodeCommand(q.Command)
				if q.Kind == ask.Update && err == nil && cmd.Op == meta.OpDelegate && cmd.Ino != 0 && cmd.Name == "" {
					requests.Add(1)
					numbered.Add(int64(cmd.Flags & meta.NumberGrant / meta.NumberGrant))
				}
				return nil
			}}
			c, err := client.New(cfg)
			require.NoError(t, err)
			defer func() { require.NoError(t, c.Close()) }()
			other := n.Client(t, east)
			dir := makeDir(t, other, posix.Root, "d")
			c.Observe(other.Proofs())
			for i := range 3 {
				create(t, c, dir.Ino, fmt.Sprint("new", i))
			}
			holds(t, c, 1)
			require.Positive(t, requests.Load())
			if grants == client.NumberedGrants {
				require.Equal(t, requests.Load(), numbered.Load())
			} else {
				require.Zero(t, numbered.Load())
			}
		})
	}
}
