package client_test

import (
	"context"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/client"
	"github.com/globalfs/globalfs/internal/client/clienttest"
	"github.com/globalfs/globalfs/internal/posix"
)

// exclusive returns a lock of owner 1 on all of a file.
func exclusive(ino posix.Ino) client.LockRequest {
	return client.LockRequest{Ino: ino, Owner: 1, PID: 11, End: math.MaxInt64, Write: true}
}

func unlocked(r client.LockRequest) client.LockRequest {
	r.Unlock = true
	return r
}

func TestLocksHoldAmongClients(t *testing.T) {
	inBubble(t, func(t *testing.T, n *clienttest.Network) {
		a, b := n.Client(t, west), n.Client(t, east)
		f := create(t, a, posix.Root, "f").Ino
		r := exclusive(f)
		r.Start, r.End = 10, 19
		require.NoError(t, a.Lock(t.Context(), r))
		require.NoError(t, a.Lock(t.Context(), r), "again")
		_, held, err := a.Locked(t.Context(), r)
		require.NoError(t, err)
		require.False(t, held, "the own one is in nobody's way")

		all := exclusive(f)
		require.Equal(t, posix.EAGAIN, b.Lock(t.Context(), all), "the same owner of another client")
		by, held, err := b.Locked(t.Context(), all)
		require.NoError(t, err)
		require.True(t, held)
		require.Equal(t, client.LockRequest{Ino: f, Owner: 1, Start: 10, End: 19, Write: true}, by, "a process of another machine has no number here")
		all.Owner = 2
		by, _, err = a.Locked(t.Context(), all)
		require.NoError(t, err)
		require.EqualValues(t, 11, by.PID, "one of this client has")

		all.Flock = true
		require.NoError(t, b.Lock(t.Context(), all), "another kind")
		require.NoError(t, a.Lock(t.Context(), unlocked(r)))
		require.NoError(t, b.Lock(t.Context(), exclusive(f)))
	})
}

func TestLocksThatCannotBe(t *testing.T) {
	inBubble(t, func(t *testing.T, n *clienttest.Network) {
		c := n.Client(t, west)
		for ino, want := range map[posix.Ino]error{
			posix.MakeIno(99, 5): posix.ESTALE, posix.MakeIno(0, 999): posix.ESTALE,
		} {
			require.Equal(t, want, c.Lock(t.Context(), exclusive(ino)))
			_, _, err := c.Locked(t.Context(), exclusive(ino))
			require.Equal(t, want, err)
		}
		r := exclusive(posix.Root)
		r.Start, r.End = 5, 4
		require.Equal(t, posix.EINVAL, c.Lock(t.Context(), r))
		_, _, err := c.Locked(t.Context(), r)
		require.Equal(t, posix.EINVAL, err)
	})
}

func TestLockWait(t *testing.T) {
	inBubble(t, func(t *testing.T, n *clienttest.Network) {
		a, b := n.Client(t, west), n.Client(t, east)
		f := create(t, a, posix.Root, "f").Ino
		require.NoError(t, a.Lock(t.Context(), exclusive(f)))
		got := make(chan error, 1)
		go func() { got <- b.LockWait(t.Context(), exclusive(f)) }()
		synctest.Wait()
		ordered := n.Ordered(0)
		const wait = 2 * client.DefaultTimeout // of one operation: a wait may take longer
		time.Sleep(wait)                       // fake time
		require.Empty(t, got)
		require.LessOrEqual(t, n.Ordered(0)-ordered, int(2*wait/client.DefaultRenew), "only sessions are renewed")
		before := time.Now()
		require.NoError(t, a.Lock(t.Context(), unlocked(exclusive(f))))
		require.NoError(t, <-got)
		require.Less(t, time.Since(before), time.Second)
	})
}

// A waiter gets the lock soon after its release, and the first waiter first, though each asked long before.
// While they wait, the partition gets a query in a second from each.
func TestLockWaitsAtTheReplica(t *testing.T) {
	inBubble(t, func(t *testing.T, n *clienttest.Network) {
		a, b := n.Client(t, west), n.Client(t, east)
		f := create(t, a, posix.Root, "f").Ino
		require.NoError(t, a.Lock(t.Context(), exclusive(f)))
		got := make(chan uint64, 3)
		for owner := uint64(1); owner <= 3; owner++ {
			r := exclusive(f)
			r.Owner = owner
			go func() {
				if b.LockWait(t.Context(), r) == nil {
					got <- owner
				}
			}()
			time.Sleep(10 * time.Millisecond) // fake time
		}
		calls := n.Calls(n.Processes(0, east)...)
		time.Sleep(10 * time.Second) // fake time
		require.LessOrEqual(t, n.Calls(n.Processes(0, east)...)-calls, 3*3*11, "a query, a query of the status and a renewal at most")
		require.Empty(t, got)
		before := time.Now()
		require.NoError(t, a.Lock(t.Context(), unlocked(exclusive(f))))
		for range 3 {
			owner := <-got
			require.Less(t, time.Since(before), 50*time.Millisecond, "owner %d", owner)
			before = time.Now()
			r := unlocked(exclusive(f))
			r.Owner = owner
			require.NoError(t, b.Lock(t.Context(), r))
		}
	})
}

func TestLockWaitIsInterrupted(t *testing.T) {
	inBubble(t, func(t *testing.T, n *clienttest.Network) {
		a, b := n.Client(t, west), n.Client(t, east)
		f := create(t, a, posix.Root, "f").Ino
		require.NoError(t, a.Lock(t.Context(), exclusive(f)))
		ctx, interrupt := context.WithCancel(t.Context())
		time.AfterFunc(time.Minute, interrupt)
		start := time.Now()
		require.Equal(t, posix.EINTR, b.LockWait(ctx, exclusive(f)))
		require.Equal(t, time.Minute, time.Since(start))
		require.NoError(t, a.Lock(t.Context(), unlocked(exclusive(f))))
		require.NoError(t, a.Lock(t.Context(), exclusive(f)), "nothing was left")
	})
}

// Two owners share a lock and both request it exclusively: each must release its part for that.
func TestFlocksThatUpgradeDoNotBlockEachOther(t *testing.T) {
	inBubble(t, func(t *testing.T, n *clienttest.Network) {
		clients := []*client.Client{n.Client(t, west), n.Client(t, east)}
		r := exclusive(create(t, clients[0], posix.Root, "f").Ino)
		r.Flock = true
		shared := r
		shared.Write = false
		got := make(chan error, len(clients))
		for _, c := range clients {
			require.NoError(t, c.Lock(t.Context(), shared))
		}
		for _, c := range clients {
			go func() {
				err := c.LockWait(t.Context(), r)
				if err == nil {
					err = c.Lock(t.Context(), unlocked(r))
				}
				got <- err
			}()
		}
		require.NoError(t, <-got)
		require.NoError(t, <-got)
	})
}

// The locks of a client that is gone do not conflict for ever.
func TestLocksEndWithTheClient(t *testing.T) {
	inBubble(t, func(t *testing.T, n *clienttest.Network) {
		b := n.Client(t, east)
		f := create(t, b, posix.Root, "f").Ino
		a, err := client.New(n.Config(west))
		require.NoError(t, err)
		require.NoError(t, a.Lock(t.Context(), exclusive(f)))
		require.Equal(t, posix.EAGAIN, b.Lock(t.Context(), exclusive(f)))
		require.NoError(t, a.Close())
		require.NoError(t, b.Lock(t.Context(), exclusive(f)), "it has said goodbye")
		require.NoError(t, b.Lock(t.Context(), unlocked(exclusive(f))))

		cfg := n.Config(west)
		cfg.Renew = 100 * lease // it is as good as dead
		dead, err := client.New(cfg)
		require.NoError(t, err)
		defer dead.Close()
		require.NoError(t, dead.Lock(t.Context(), exclusive(f)))
		time.AfterFunc(2*lease, n.Tick)
		start := time.Now()
		require.NoError(t, b.LockWait(t.Context(), exclusive(f)))
		require.GreaterOrEqual(t, time.Since(start), lease)
		require.Less(t, time.Since(start), 3*lease)
	})
}

// A lock in a partition that cannot be reached fails in time.
func TestLockTimesOut(t *testing.T) {
	inBubble(t, func(t *testing.T, n *clienttest.Network) {
		c := n.Client(t, west)
		f := create(t, c, posix.Root, "f").Ino
		n.Fail(clienttest.Silent, n.Processes(0, west)...)
		start := time.Now()
		require.Equal(t, posix.ETIMEDOUT, c.LockWait(t.Context(), exclusive(f)))
		require.Equal(t, client.DefaultTimeout, time.Since(start))
		n.Fail(clienttest.None, n.Processes(0, west)...)
	})
}
