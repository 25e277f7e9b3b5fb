package client_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/internal/client"
	"github.com/globalfs/globalfs/internal/client/clienttest"
	"github.com/globalfs/globalfs/internal/client/journal"
	"github.com/globalfs/globalfs/internal/delegation"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// mortal is a client that can die: then it reaches no server any more.
type mortal struct {
	*client.Client
	client.Caller
	memory []byte
	dead   atomic.Bool
	deaf   atomic.Bool // answers of batches and of requests for directories do not reach it
}

var errDead = errors.New("the process is dead")

func (m *mortal) Call(ctx context.Context, to multicast.ProcessID, request []byte) ([]byte, error) {
	if m.dead.Load() {
		return nil, errDead
	}
	b, err := m.Caller.Call(ctx, to, request)
	q, bad := ask.DecodeRequest(request)
	isOfLog := false
	if bad == nil && q.Kind == ask.Update {
		op := meta.Op(q.Command[0])
		isOfLog = op == meta.OpBatch || op == meta.OpDelegate
	}
	if m.dead.Load() || m.deaf.Load() && isOfLog {
		return nil, errDead
	}
	return b, err
}

// live creates a client whose journal is in memory. before is the state of a dead client; nil: there is none.
func live(t *testing.T, n *clienttest.Network, memory []byte, before *client.State) *mortal {
	t.Helper()
	cfg := n.Config(west)
	m := &mortal{Caller: cfg.Caller, memory: memory}
	cfg.Caller, cfg.Delegate, cfg.CacheNames, cfg.Resume = m, true, true, before
	var err error
	cfg.Journal, err = client.OpenJournal(memory)
	require.NoError(t, err)
	m.Client, err = client.New(cfg)
	require.NoError(t, err)
	t.Cleanup(func() {
		if !m.dead.Load() {
			require.NoError(t, m.Close())
		}
	})
	return m
}

// die ends a client as kill -9 does, and returns the one that continues.
func (m *mortal) die(t *testing.T, n *clienttest.Network) *mortal {
	t.Helper()
	synctest.Wait() // no goroutine writes to the memory
	before := m.Snapshot()
	memory := bytes.Clone(m.memory) // what the dead one does now has no effect
	m.dead.Store(true)
	_ = m.Close()
	return live(t, n, memory, before)
}

// All that was answered is there after the death of a client, however far its log has come.
func TestDeadClientLosesNothing(t *testing.T) {
	for name, stop := range map[string]func(*clienttest.Network, *mortal){
		"before it has sent the log":   func(n *clienttest.Network, _ *mortal) { n.Fail(clienttest.Silent, n.Processes(0, west)...) },
		"before it has got the answer": func(_ *clienttest.Network, m *mortal) { m.deaf.Store(true) },
		"at any time":                  func(*clienttest.Network, *mortal) {},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, n *clienttest.Network) {
				c := live(t, n, make([]byte, journal.Size), nil)
				other := n.Client(t, east)
				dir := makeDir(t, c.Client, posix.Root, "d")
				stop(n, c)
				var want []string
				for i := range 300 {
					name := fmt.Sprint("f", i)
					a := create(t, c.Client, dir.Ino, name)
					if i%50 == 0 {
						_, err := c.Write(t.Context(), root, client.Write{Ino: a.Ino, Data: bytes.Repeat([]byte{byte(i)}, 3000), Append: true})
						require.NoError(t, err)
					}
					if i%3 == 0 {
						require.NoError(t, c.Unlink(t.Context(), root, at(dir.Ino, name)))
						continue
					}
					want = append(want, name)
				}
				synctest.Wait() // full batches leave at once
				create(t, c.Client, dir.Ino, "last")
				want = append(want, "last")
				next := c.die(t, n)
				n.Fail(clienttest.None, n.Processes(0, west)...)
				a, err := next.Lookup(t.Context(), dir.Ino, "f50")
				require.NoError(t, err, "it waits until the log is ordered")
				require.EqualValues(t, 3000, a.Size, "appended once")
				require.ElementsMatch(t, want, listNames(t, next.Client, dir.Ino))
				require.Positive(t, next.Holding().Restored)
				require.Zero(t, next.Holding().Lost)
				require.NoError(t, next.Persist(t.Context(), dir.Ino))
				require.NoError(t, other.Wait(t.Context(), next.Token()))
				require.ElementsMatch(t, want, listNames(t, other, dir.Ino))

				began := time.Now()
				create(t, other, dir.Ino, "foreign")
				create(t, next.Client, dir.Ino, "own")
				require.Less(t, time.Since(began), time.Second, "the directories of the dead one are free")
				again := makeDir(t, next.Client, posix.Root, "e")
				create(t, next.Client, again.Ino, "f")
				require.Equal(t, 1, next.Holding().Directories)
				require.NoError(t, next.PersistAll(t.Context()))
				n.Check(t)
			})
		})
	}
}

// The copy of a directory that existed dies with the process. The next one sends the operations there without
// it, also if several batches are under way.
func TestDeadClientOfAnExistingDirectory(t *testing.T) {
	const more = 3*delegation.MaxOps + 128
	for name, stop := range map[string]func(*clienttest.Network, *mortal){
		"before it has sent the log":    func(n *clienttest.Network, _ *mortal) { n.Fail(clienttest.Silent, n.Processes(0, west)...) },
		"before it has got the answers": func(_ *clienttest.Network, m *mortal) { m.deaf.Store(true) },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, n *clienttest.Network) {
				c, other := live(t, n, make([]byte, journal.Size), nil), n.Client(t, east)
				dir := makeDir(t, other, posix.Root, "d")
				for i := range 4 {
					a := create(t, other, dir.Ino, fmt.Sprint("old", i))
					write(t, other, a.Ino, 0, []byte("text"))
					other.Release(a.Ino)
				}
				c.Observe(other.Proofs())
				work := func(c *client.Client, name string) (made []string) {
					for i := range 3 {
						made = append(made, fmt.Sprint(name, i))
						create(t, c, dir.Ino, made[i])
					}
					return made
				}
				want := append(work(c.Client, "new"), "old0", "old3", "sub")
				holds(t, c.Client, 1)
				stop(n, c)
				a, err := c.Lookup(t.Context(), dir.Ino, "old0")
				require.NoError(t, err)
				write(t, c.Client, a.Ino, 4, []byte("more"))
				require.NoError(t, c.Unlink(t.Context(), root, at(dir.Ino, "old1")))
				require.NoError(t, c.Rename(t.Context(), root, at(dir.Ino, "old2"), at(dir.Ino, "old3"), 0))
				sub := makeDir(t, c.Client, dir.Ino, "sub")
				for i := range more {
					create(t, c.Client, sub.Ino, fmt.Sprint(i))
				}
				next := c.die(t, n)
				n.Fail(clienttest.None, n.Processes(0, west)...)
				require.Equal(t, "textmore", string(read(t, next.Client, a.Ino, 0, 100)))
				require.ElementsMatch(t, want, listNames(t, next.Client, dir.Ino))
				require.Len(t, listNames(t, next.Client, sub.Ino), more)
				require.Greater(t, next.Holding().Restored, uint64(more))
				require.Zero(t, next.Holding().Lost)

				began := time.Now()
				other.Observe(next.Proofs())
				create(t, other, dir.Ino, "foreign")
				require.Less(t, time.Since(began), time.Second, "the directory of the dead one is free")
				require.Equal(t, "textmore", string(read(t, other, a.Ino, 0, 100)))
				time.Sleep(15 * time.Second) // fake time
				next.Observe(other.Proofs())
				work(next.Client, "again")
				holds(t, next.Client, 1)
				require.NoError(t, next.GiveBack(t.Context()))
				n.Check(t)
			})
		})
	}
}

// A client dies after it has asked for a directory, without the answer. The next one returns it.
func TestDeadClientThatHasAsked(t *testing.T) {
	inBubble(t, func(t *testing.T, n *clienttest.Network) {
		c, other := live(t, n, make([]byte, journal.Size), nil), n.Client(t, east)
		dir := makeDir(t, other, posix.Root, "d")
		c.Observe(other.Proofs())
		c.deaf.Store(true)
		for i := range 3 {
			create(t, c.Client, dir.Ino, fmt.Sprint("new", i))
		}
		time.Sleep(time.Second) // fake time
		next := c.die(t, n)
		time.Sleep(time.Second) // fake time
		began := time.Now()
		create(t, other, dir.Ino, "foreign")
		require.Less(t, time.Since(began), time.Second, "the directory is free")
		require.Zero(t, next.Holding().Lost)
		require.Len(t, listNames(t, other, dir.Ino), 4)
		n.Check(t)
	})
}

// heldWhileSilent returns the client after one that has died while it held a directory, with nothing to
// order. The servers have been silent since. The function foreign requires that another client can change the
// directory at once.
func heldWhileSilent(t *testing.T, n *clienttest.Network) (next *mortal, foreign func()) {
	t.Helper()
	c, other := live(t, n, make([]byte, journal.Size), nil), n.Client(t, east)
	dir := makeDir(t, c.Client, posix.Root, "d")
	create(t, c.Client, dir.Ino, "f")
	holds(t, c.Client, 1)
	require.NoError(t, c.Persist(t.Context(), dir.Ino))
	other.Observe(c.Proofs())
	n.Fail(clienttest.Silent, n.Processes(0, west)...)
	return c.die(t, n), func() {
		began := time.Now()
		create(t, other, dir.Ino, "foreign")
		require.Less(t, time.Since(began), time.Second, "the directory is free")
	}
}

// A client without unordered changes dies while the servers do not answer. The next client reports that the
// directories are returned only after the servers have ended the grants.
func TestDirectoriesOfADeadClientAreKnownToBeReturned(t *testing.T) {
	inBubble(t, func(t *testing.T, n *clienttest.Network) {
		next, foreign := heldWhileSilent(t, n)
		require.Zero(t, next.Holding().Restored)
		soon, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		require.Error(t, next.GiveBack(soon))
		time.AfterFunc(3*time.Second, func() { n.Fail(clienttest.None, n.Processes(0, west)...) })
		require.NoError(t, next.GiveBack(t.Context()))
		foreign()
		n.Check(t)
	})
}

// The return of the directories of a dead client has failed, since the servers were silent for longer than
// the timeout of the next one. It is tried again.
func TestTheReturnOfDirectoriesIsTriedAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, n *clienttest.Network) {
		next, foreign := heldWhileSilent(t, n)
		time.Sleep(n.Config(west).Timeout + time.Second) // fake time
		require.Error(t, next.GiveBack(t.Context()))
		n.Fail(clienttest.None, n.Processes(0, west)...)
		require.NoError(t, next.GiveBack(t.Context()))
		foreign()
		n.Check(t)
	})
}

// The kernel sends requests again that a dead process has not answered: the operation is not done twice.
func TestRequestOfADeadClient(t *testing.T) {
	inBubble(t, func(t *testing.T, n *clienttest.Network) {
		c := live(t, n, make([]byte, journal.Size), nil)
		dir := makeDir(t, c.Client, posix.Root, "d")
		request := func(number uint64) context.Context { return client.WithRequest(t.Context(), number) }
		made, err := c.Create(request(7), root, at(dir.Ino, "f"), 0o644, meta.Exclusive)
		require.NoError(t, err)
		_, err = c.Write(request(8), root, client.Write{Ino: made.Ino, Data: []byte("once"), Append: true})
		require.NoError(t, err)
		require.NoError(t, c.Rename(request(9), root, at(dir.Ino, "f"), at(dir.Ino, "g"), 0))
		create(t, c.Client, dir.Ino, "h")
		require.NoError(t, c.Unlink(request(10), root, at(dir.Ino, "h")))
		require.NoError(t, c.Persist(t.Context(), dir.Ino)) // acknowledged, but not answered
		next := c.die(t, n)

		again, err := next.Create(request(7), root, at(dir.Ino, "f"), 0o644, meta.Exclusive)
		require.NoError(t, err)
		require.Equal(t, made.Ino, again.Ino)
		_, err = next.Write(request(8), root, client.Write{Ino: made.Ino, Data: []byte("once"), Append: true})
		require.NoError(t, err)
		require.NoError(t, next.Rename(request(9), root, at(dir.Ino, "f"), at(dir.Ino, "g"), 0))
		require.NoError(t, next.Unlink(request(10), root, at(dir.Ino, "h")))
		require.Equal(t, []string{"g"}, listNames(t, next.Client, dir.Ino))
		a, err := next.GetAttr(t.Context(), made.Ino)
		require.NoError(t, err)
		require.EqualValues(t, 4, a.Size)

		require.ErrorIs(t, next.Unlink(request(10), root, at(dir.Ino, "h")), posix.ENOENT, "it is done now")
		create(t, next.Client, dir.Ino, "other")
		_, err = next.Create(request(7), root, at(dir.Ino, "other"), 0o644, meta.Exclusive)
		require.ErrorIs(t, err, posix.EEXIST, "a new request")
	})
}

// The next process keeps the blocks of the dead one, stored or not, also of a session that has just begun.
func TestBlocksOfADeadClient(t *testing.T) {
	inBubble(t, func(t *testing.T, n *clienttest.Network) {
		c := live(t, n, make([]byte, journal.Size), nil)
		dir := makeDir(t, c.Client, posix.Root, "d")
		n.Fail(clienttest.Silent, n.Processes(0, west)...)
		content := bytes.Repeat([]byte("block"), 5000)
		a := create(t, c.Client, dir.Ino, "f")
		_, err := c.Write(t.Context(), root, client.Write{Ino: a.Ino, Data: content})
		require.NoError(t, err)
		before := c.Snapshot()
		for i := range before.Partitions { // as if the session had begun just now
			before.Partitions[i].Session = nil
		}
		memory := bytes.Clone(c.memory)
		c.dead.Store(true)
		_ = c.Close()
		n.Fail(clienttest.None, n.Processes(0, west)...)
		next := live(t, n, memory, before)
		time.Sleep(2 * client.DefaultRenew) // fake time
		got, err := next.View(t.Context(), a.Ino, make([]byte, len(content)), 0, 0)
		require.NoError(t, err)
		require.Equal(t, content, got)
	})
}

// A log that cannot be sent any more is lost once, and named: not again by the next process.
func TestLostLogStaysLost(t *testing.T) {
	inBubble(t, func(t *testing.T, n *clienttest.Network) {
		c := live(t, n, make([]byte, journal.Size), nil)
		dir, untouched := makeDir(t, c.Client, posix.Root, "d"), makeDir(t, c.Client, posix.Root, "e")
		kept := create(t, c.Client, dir.Ino, "kept")
		require.NoError(t, c.Persist(t.Context(), dir.Ino))
		all := n.Processes(0, west)
		n.Fail(clienttest.Silent, all...)
		lost := create(t, c.Client, dir.Ino, "lost")
		time.Sleep(3 * lease) // fake time
		n.Fail(clienttest.None, all...)
		n.Tick()
		n.Tick()
		_ = c.Persist(t.Context(), dir.Ino) // finds out
		require.EqualValues(t, 1, c.Losses())
		for ino, want := range map[posix.Ino]uint64{dir.Ino: 1, lost.Ino: 1, kept.Ino: 0, untouched.Ino: 0, posix.Root: 0} {
			require.Equal(t, want, c.LossesOf(ino), ino)
		}
		h := c.Holding()
		require.Len(t, h.Losses, 1)
		require.Equal(t, []string{fmt.Sprintf("lost in inode %d", dir.Ino)}, h.Losses[0].Names)
		next := c.die(t, n)
		require.Zero(t, next.Holding().Restored)
		_ = next.Persist(t.Context(), dir.Ino)
		require.EqualValues(t, 1, next.Losses(), "the same one, which programs may not have been told of")
		require.EqualValues(t, 1, next.LossesOf(lost.Ino))
		require.Equal(t, []string{"kept"}, listNames(t, next.Client, dir.Ino))
	})
}

// When the memory is full, changes wait for the servers.
func TestFullJournal(t *testing.T) {
	inBubble(t, func(t *testing.T, n *clienttest.Network) {
		c := live(t, n, make([]byte, 3<<20), nil)
		dir := makeDir(t, c.Client, posix.Root, "d")
		all := n.Processes(0, west)
		n.Fail(clienttest.Silent, all...)
		target, answered := strings.Repeat("t", 4000), 0
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second) // fake time
		defer cancel()
		var err error
		for err == nil && answered < 1000 {
			if _, err = c.Symlink(ctx, root, at(dir.Ino, fmt.Sprint("s", answered)), target); err == nil {
				answered++
			}
		}
		require.Error(t, err)
		require.Greater(t, answered, 100)
		require.Less(t, answered*len(target), 3<<20)
		h := c.Holding()
		require.Equal(t, answered, h.Unordered)
		require.Greater(t, h.LogBytes, answered*len(target))
		require.Less(t, h.KeptBytes, 3<<20)
		n.Fail(clienttest.None, all...)
		create(t, c.Client, dir.Ino, "f")
		require.NoError(t, c.Persist(t.Context(), dir.Ino))
		require.Zero(t, c.Holding().LogBytes)
	})
}

// A client is closed while servers are silent. It leaves its session and its log to the next one.
func TestClosedClientLeavesItsLog(t *testing.T) {
	inBubble(t, func(t *testing.T, n *clienttest.Network) {
		memory := make([]byte, journal.Size)
		c := live(t, n, memory, nil)
		dir := makeDir(t, c.Client, posix.Root, "d")
		n.Fail(clienttest.Silent, n.Processes(0, west)...)
		var want []string
		for i := range 20 {
			create(t, c.Client, dir.Ino, fmt.Sprint(i))
			want = append(want, fmt.Sprint(i))
		}
		pending, holds, err := client.Pending(memory)
		require.NoError(t, err)
		require.Equal(t, 20, pending)
		require.True(t, holds)
		state := c.Snapshot()
		time.AfterFunc(time.Second, func() { n.Fail(clienttest.None, n.Processes(0, west)...) })
		c.Finish() // it waits for 10 s, the servers answer after one
		pending, _, err = client.Pending(memory)
		require.NoError(t, err)
		require.Zero(t, pending)

		n.Fail(clienttest.Silent, n.Processes(0, west)...)
		create(t, c.Client, dir.Ino, "late")
		time.AfterFunc(time.Second, func() { n.Fail(clienttest.None, n.Processes(0, west)...) })
		require.NoError(t, c.Close())
		time.Sleep(2 * time.Second) // fake time: a message to end the session would have arrived
		c.dead.Store(true)
		next := live(t, n, memory, state)
		require.NoError(t, next.Drain(t.Context()))
		require.Zero(t, next.Holding().Lost)
		require.ElementsMatch(t, append(want, "late"), listNames(t, next.Client, dir.Ino))
	})
}
