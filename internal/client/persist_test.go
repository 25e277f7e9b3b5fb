package client_test

import (
	"context"
	"crypto/rand"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/block"
	"github.com/globalfs/globalfs/internal/client"
	"github.com/globalfs/globalfs/internal/client/clienttest"
	"github.com/globalfs/globalfs/internal/posix"
)

// Persist needs a majority of the replicas with all written data, and sends no request when there is nothing
// new.
func TestPersistAsksAMajority(t *testing.T) {
	inBubble(t, func(t *testing.T, n *clienttest.Network) {
		c := n.Client(t, west)
		all := n.Processes(0, west)
		require.Len(t, all, 3)
		f := create(t, c, posix.Root, "f").Ino
		before := n.Calls(all...)
		require.NoError(t, c.Persist(t.Context(), f))
		require.GreaterOrEqual(t, n.Calls(all...), before+2)
		synctest.Wait() // the third replica was asked too
		before = n.Calls(all...)
		require.NoError(t, c.Persist(t.Context(), f))
		synctest.Wait()
		require.Equal(t, before, n.Calls(all...), "nothing is new")

		n.Fail(clienttest.Silent, all[0])
		write(t, c, f, 0, []byte("with a majority"))
		require.NoError(t, c.Persist(t.Context(), f))

		n.Fail(clienttest.None, all[0])
		write(t, c, f, 0, []byte("with nobody but one"))
		n.Fail(clienttest.Silent, all[1:]...)
		start := time.Now()
		require.Equal(t, posix.ETIMEDOUT, c.Persist(t.Context(), f))
		require.Equal(t, client.DefaultTimeout, time.Since(start))
		require.Equal(t, posix.ETIMEDOUT, c.PersistAll(t.Context()))
		n.Fail(clienttest.None, all...)
		require.NoError(t, c.Persist(t.Context(), f), "it is asked again")
		require.Zero(t, c.Losses())
	})
}

// After a write with OnDisk, Persist sends no request, because the answer to the write has confirmed that the
// write is on disk. The answer covers the earlier updates, and no later ones.
func TestPersistAfterAWriteOnDisk(t *testing.T) {
	inBubble(t, func(t *testing.T, n *clienttest.Network) {
		c := n.Client(t, west)
		all := n.Processes(0, west)
		f := create(t, c, posix.Root, "f").Ino
		onDisk := func(data []byte) {
			_, err := c.Write(t.Context(), posix.Cred{}, client.Write{Ino: f, Data: data, OnDisk: true})
			require.NoError(t, err)
		}
		persist := func() int {
			synctest.Wait()
			before := n.Calls(all...)
			require.NoError(t, c.Persist(t.Context(), f))
			synctest.Wait()
			return n.Calls(all...) - before
		}
		onDisk([]byte("in the metadata"))
		require.Zero(t, persist())
		onDisk(make([]byte, 10<<10))
		require.Zero(t, persist())
		write(t, c, f, 0, []byte("after"))
		require.GreaterOrEqual(t, persist(), 2)
	})
}

// A replica that does not have the written data yet gives no answer: it counts once it has the data.
func TestPersistWaitsForWhoIsBehind(t *testing.T) {
	inBubble(t, func(t *testing.T, n *clienttest.Network) {
		c := n.Client(t, west)
		all := n.Processes(0, west)
		n.Fail(clienttest.Lagging, all[1:]...)
		f := create(t, c, posix.Root, "f").Ino
		const behind = 5 * time.Second
		time.AfterFunc(behind, func() { n.Fail(clienttest.None, all[1:]...) })
		start := time.Now()
		require.NoError(t, c.Persist(t.Context(), f))
		require.GreaterOrEqual(t, time.Since(start), behind)
	})
}

// syncedStore counts the syncs of a block store.
type syncedStore struct {
	block.Store
	syncs atomic.Int64
	err   error
}

func (s *syncedStore) Sync(context.Context) error {
	s.syncs.Add(1)
	return s.err
}

// Blocks are synced once for all puts since the last sync, and an error is returned.
func TestPersistSyncsBlocks(t *testing.T) {
	inBubble(t, func(t *testing.T, n *clienttest.Network) {
		s := &syncedStore{Store: n.Blocks}
		cfg := n.Config(west)
		cfg.Blocks = func(uint16) block.Store { return s }
		c, err := client.New(cfg)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, c.Close()) })
		f := create(t, c, posix.Root, "f").Ino
		require.NoError(t, c.Persist(t.Context(), f))
		require.Zero(t, s.syncs.Load())
		write(t, c, f, 0, make([]byte, 10<<10))
		s.err = block.ErrNoSpace
		require.Equal(t, posix.ENOSPC, c.Persist(t.Context(), f))
		s.err = nil
		require.NoError(t, c.Persist(t.Context(), f))
		require.EqualValues(t, 2, s.syncs.Load())
		require.NoError(t, c.Persist(t.Context(), f))
		require.EqualValues(t, 2, s.syncs.Load(), "nothing is new")
	})
}

// The client that resumes another one syncs the blocks of its predecessor once.
func TestPersistAfterResumeSyncsBlocks(t *testing.T) {
	inBubble(t, func(t *testing.T, n *clienttest.Network) {
		s := &syncedStore{Store: n.Blocks}
		cfg := n.Config(west)
		cfg.Blocks = func(uint16) block.Store { return s }
		old, err := client.New(cfg)
		require.NoError(t, err)
		f := create(t, old, posix.Root, "f").Ino
		write(t, old, f, 0, make([]byte, 10<<10))
		cfg.Resume = through(t, old.Suspend())
		require.NoError(t, old.Close())
		require.Zero(t, s.syncs.Load())

		c, err := client.New(cfg)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, c.Close()) })
		require.NoError(t, c.Persist(t.Context(), f))
		synced := s.syncs.Load()
		require.NotZero(t, synced)
		require.NoError(t, c.Persist(t.Context(), f))
		require.Equal(t, synced, s.syncs.Load(), "nothing is new")
	})
}

// Persist in a held directory waits for a batch whose answer confirms that it is on disk, and queries no
// replica. If the operations were sent before Persist, it queries a majority.
func TestPersistOfAHeldDirectory(t *testing.T) {
	inBubble(t, func(t *testing.T, n *clienttest.Network) {
		c := delegating(t, n)
		all := n.Processes(0, west)
		dir := makeDir(t, c, posix.Root, "d")
		require.NoError(t, c.Persist(t.Context(), dir.Ino))
		synctest.Wait()
		for range 3 {
			f := create(t, c, dir.Ino, rand.Text()).Ino
			write(t, c, f, 0, []byte("content"))
			calls, ordered := n.Calls(all...), n.Ordered(0)
			require.NoError(t, c.Persist(t.Context(), f))
			synctest.Wait()
			require.Equal(t, ordered+1, n.Ordered(0))
			require.Equal(t, calls+1, n.Calls(all...), "of the batch")
		}
		create(t, c, dir.Ino, "drained")
		require.NoError(t, c.Drain(t.Context()))
		calls := n.Calls(all...)
		require.NoError(t, c.Persist(t.Context(), dir.Ino))
		require.GreaterOrEqual(t, n.Calls(all...), calls+2)
	})
}

// If another partition in which the client has written does not answer, an fsync of a local file waits for
// some seconds; later ones do not wait for it, but for other partitions. A sync of the mount waits for it.
// When the partition answers again, fsync covers it again.
func TestPersistDoesNotDependOnOtherPartitions(t *testing.T) {
	for _, timeout := range []time.Duration{client.DefaultTimeout, 5 * time.Second} {
		inBubble(t, func(t *testing.T, n *clienttest.Network) {
			cfg := n.Config(west)
			cfg.Timeout = timeout
			c, err := client.New(cfg)
			require.NoError(t, err)
			defer func() { require.NoError(t, c.Close()) }()
			wait := min(5*time.Second, timeout/2)
			f := create(t, c, local(n, 1), "f").Ino
			makeDir(t, c, posix.Root, "global")
			all, second := n.Processes(0, west), n.Processes(2, west)
			n.Fail(clienttest.Silent, all[1:]...)
			took := func() time.Duration {
				write(t, c, f, 0, []byte("local"))
				start := time.Now()
				require.NoError(t, c.Persist(t.Context(), f))
				return time.Since(start)
			}
			require.Equal(t, wait, took())
			for range 3 {
				require.Zero(t, took())
			}
			require.Equal(t, posix.ETIMEDOUT, c.PersistAll(t.Context()))
			require.Equal(t, posix.ETIMEDOUT, c.Persist(t.Context(), posix.Root))

			makeDir(t, c, local(n, 2), "d")
			synctest.Wait()
			before := n.Calls(second...)
			require.Zero(t, took())
			require.GreaterOrEqual(t, n.Calls(second...), before+2, "the partition that answers is asked")
			require.Equal(t, posix.ETIMEDOUT, c.Persist(t.Context(), posix.Root))
			require.NoError(t, c.Persist(t.Context(), local(n, 2)))
			require.Zero(t, took(), "the fsync of a file elsewhere changes nothing")

			n.Fail(clienttest.None, all...)
			time.Sleep(time.Minute) // fake time: the work in the background succeeds
			before = n.Calls(all...)
			require.Zero(t, took())
			synctest.Wait()
			require.Equal(t, before, n.Calls(all...), "all is on disk already")
			makeDir(t, c, posix.Root, "again")
			before = n.Calls(all...)
			require.Zero(t, took())
			require.GreaterOrEqual(t, n.Calls(all...), before+2, "the partition is asked again")
			makeDir(t, c, posix.Root, "once more")
			n.Fail(clienttest.Silent, all[1:]...)
			require.Equal(t, wait, took())
			require.Zero(t, c.Losses())
		})
	}
}

// The same is true for storage servers, except those of a partition in which a moved file was written.
func TestPersistDependsOnTheStorageOfTheFile(t *testing.T) {
	inBubble(t, func(t *testing.T, n *clienttest.Network) {
		cfg, far := withUnsyncedStore(n)
		c, err := client.New(cfg)
		require.NoError(t, err)
		defer func() { require.NoError(t, c.Close()) }()
		f, g := create(t, c, local(n, 1), "f").Ino, create(t, c, local(n, 1), "g").Ino
		rename(t, c, at(local(n, 1), "f"), at(local(n, 2), "f"))
		write(t, c, f, 0, make([]byte, 10<<10))
		rename(t, c, at(local(n, 2), "f"), at(local(n, 1), "f"))
		for _, wait := range []time.Duration{5 * time.Second, 0} {
			start := time.Now()
			require.NoError(t, c.Persist(t.Context(), g))
			require.Equal(t, wait, time.Since(start))
		}
		require.Equal(t, posix.ETIMEDOUT, c.Persist(t.Context(), f))
		far.answers.Store(true)
		require.NoError(t, c.Persist(t.Context(), f))
	})
}

// After a resume the client does not know where the previous one has written a file: each fsync depends on
// all storage servers until they have synced once.
func TestPersistAfterResumeDependsOnAllStorage(t *testing.T) {
	inBubble(t, func(t *testing.T, n *clienttest.Network) {
		cfg, far := withUnsyncedStore(n)
		old, err := client.New(cfg)
		require.NoError(t, err)
		f := create(t, old, local(n, 1), "f").Ino
		cfg.Resume = through(t, old.Suspend())
		require.NoError(t, old.Close())
		c, err := client.New(cfg)
		require.NoError(t, err)
		defer func() { require.NoError(t, c.Close()) }()
		require.Equal(t, posix.ETIMEDOUT, c.Persist(t.Context(), f))
		far.answers.Store(true)
		require.NoError(t, c.Persist(t.Context(), f))
		far.answers.Store(false)
		write(t, c, create(t, c, local(n, 2), "g").Ino, 0, make([]byte, 10<<10))
		require.NoError(t, c.Persist(t.Context(), f))
	})
}

// Storage servers of another partition that answer with an error after a silence fail the next fsync, which
// asks them.
func TestPersistReportsErrorsOfOtherStorage(t *testing.T) {
	inBubble(t, func(t *testing.T, n *clienttest.Network) {
		cfg, far := withUnsyncedStore(n)
		c, err := client.New(cfg)
		require.NoError(t, err)
		defer func() { require.NoError(t, c.Close()) }()
		f := create(t, c, local(n, 1), "f").Ino
		write(t, c, create(t, c, local(n, 2), "g").Ino, 0, make([]byte, 10<<10))
		require.NoError(t, c.Persist(t.Context(), f))
		far.full.Store(true)
		time.Sleep(time.Minute) // fake time: the work in the background is repeated
		require.Equal(t, posix.ENOSPC, c.Persist(t.Context(), f))
	})
}

// withUnsyncedStore returns a configuration with an unsyncedStore for partition 2.
func withUnsyncedStore(n *clienttest.Network) (client.Config, *unsyncedStore) {
	cfg, far := n.Config(west), &unsyncedStore{Store: n.Blocks}
	cfg.Blocks = func(partition uint16) block.Store {
		if partition == 2 {
			return far
		}
		return n.Blocks
	}
	return cfg, far
}

// unsyncedStore is a block store whose Sync does not answer, or fails.
type unsyncedStore struct {
	block.Store
	answers, full atomic.Bool
}

// Sync implements block.Syncer.
func (s *unsyncedStore) Sync(ctx context.Context) error {
	switch {
	case s.answers.Load():
		return nil
	case s.full.Load():
		return block.ErrNoSpace
	}
	<-ctx.Done()
	return ctx.Err()
}
