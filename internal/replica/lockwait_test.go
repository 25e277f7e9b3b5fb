package replica

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
)

// lockOf returns a change of the lock of owner on all of the root directory.
func lockOf(owner uint64, flags uint32) meta.Command {
	return meta.Command{Op: meta.OpLock, Ino: posix.Root, Owner: owner, Flags: flags}
}

// awaitLock returns the query of a client that waits for a lock.
func awaitLock(session, owner uint64, flags uint32) ask.Request {
	c := meta.Command{Op: meta.OpGetLock, Ino: posix.Root, Owner: owner, Flags: flags | meta.AwaitLock}
	return ask.Request{Kind: ask.Query, Session: session, Command: c.Append(nil)}
}

// park begins a wait, and returns the token of its call.
func (f *fixture) park(q ask.Request) uint64 {
	f.t.Helper()
	require.Empty(f.t, f.step(q))
	return f.token
}

// The end of a lock answers the first exclusive waiter, or all that want to share.
func TestLockWaits(t *testing.T) {
	f := newFixture(t)
	f.lockWaits.most = DefaultMaxPending
	f.open(7)
	f.do(7, 1, lockOf(1, meta.LockWrite))
	first, second := f.park(awaitLock(7, 2, meta.LockWrite)), f.park(awaitLock(7, 3, meta.LockWrite))
	shared, another := f.park(awaitLock(7, 4, 0)), f.park(awaitLock(7, 5, 0))
	replies := f.step(updateOf(7, 2, lockOf(1, meta.LockUnlock)))
	require.Contains(t, replies, first)
	require.Len(t, replies, 2, "the unlock, and the first waiter")
	result, err := meta.DecodeResult(replies[first].Result)
	require.NoError(t, err)
	require.Nil(t, result.Data, "no lock conflicts")

	f.do(7, 3, lockOf(2, meta.LockWrite))
	replies = f.step(updateOf(7, 4, lockOf(2, meta.LockUnlock)))
	require.Contains(t, replies, second)
	require.Len(t, replies, 2)
	f.do(7, 5, lockOf(3, 0))
	f.do(7, 6, lockOf(1, 0))
	replies = f.step(updateOf(7, 7, lockOf(3, meta.LockUnlock)))
	require.Contains(t, replies, shared)
	require.Contains(t, replies, another)
	require.Empty(t, f.lockWaits.waiting)
}

// A waiter waits for no other one whose lock does not conflict.
func TestLockWaitsOfDifferentRanges(t *testing.T) {
	f := newFixture(t)
	f.lockWaits.most = DefaultMaxPending
	f.open(7)
	f.do(7, 1, lockOf(1, meta.LockWrite))
	f.do(7, 2, lockOf(1, meta.LockWrite|meta.LockFlock))
	wait := func(owner, offset uint64, flags uint32) uint64 {
		c := meta.Command{Op: meta.OpGetLock, Ino: posix.Root, Owner: owner, Offset: offset, Length: 10, Flags: meta.LockWrite | meta.AwaitLock | flags}
		return f.park(ask.Request{Kind: ask.Query, Session: 7, Command: c.Append(nil)})
	}
	first, same, other, flock := wait(2, 0, 0), wait(3, 5, 0), wait(4, 10, 0), wait(5, 0, meta.LockFlock)
	replies := f.step(updateOf(7, 3, lockOf(1, meta.LockUnlock)))
	require.Len(t, replies, 3, "the unlock and two waiters")
	require.Contains(t, replies, first)
	require.Contains(t, replies, other)
	replies = f.step(updateOf(7, 4, lockOf(1, meta.LockUnlock|meta.LockFlock)))
	require.Contains(t, replies, flock)
	require.Contains(t, replies, same, "no lock conflicts with it")
}

// A wait ends after its time, with its client, and with the session that has the lock.
func TestLockWaitsEnd(t *testing.T) {
	f := newFixture(t)
	f.lockWaits.most = DefaultMaxPending
	f.open(7)
	f.open(8)
	f.do(7, 1, lockOf(1, meta.LockWrite))
	waits := f.park(awaitLock(8, 1, meta.LockWrite))
	require.LessOrEqual(t, f.Wake(), f.mono+lockLinger)
	f.mono += lockLinger
	replies := f.step()
	require.Contains(t, replies, waits)
	result, err := meta.DecodeResult(replies[waits].Result)
	require.NoError(t, err)
	require.NotNil(t, result.Data, "the lock is still there")

	f.park(awaitLock(8, 1, meta.LockWrite))
	f.withdraw([]uint64{f.token})
	require.Empty(t, f.lockWaits.waiting)

	waits = f.park(awaitLock(8, 1, meta.LockWrite))
	require.Contains(t, f.step(ask.Request{Kind: ask.CloseSession, Session: 7}), waits)
	require.Len(t, f.step(awaitLock(8, 1, meta.LockWrite)), 1, "no lock conflicts")
}

// Beyond the bounds a query is answered at once, and a bound client cannot take the room of others.
func TestLockWaitsAreBounded(t *testing.T) {
	f := newFixture(t)
	f.lockWaits.most = DefaultMaxPending
	f.open(7)
	f.do(7, 1, lockOf(1, meta.LockWrite))
	greedy := awaitLock(0, 1, meta.LockWrite)
	for range maxLockWaitsOfClient {
		f.from = someClient("greedy", 1000)
		f.park(greedy)
	}
	require.Len(t, f.step(greedy), 1)
	f.from = nil
	for range maxLockWaits - maxLockWaitsOfClient {
		f.park(awaitLock(7, 2, meta.LockWrite))
	}
	require.Len(t, f.step(awaitLock(7, 2, meta.LockWrite)), 1)
	f.mono += lockLinger
	require.Len(t, f.step(), maxLockWaits)
	require.Zero(t, f.lockWaits.wake())
	f.step(ask.Request{Kind: ask.CloseSession, Session: 7})
	require.Empty(t, f.lockWaits.waiting)
}
