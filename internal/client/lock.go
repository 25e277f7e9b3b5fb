package client

import (
	"context"
	"math"
	"time"

	"github.com/globalfs/globalfs/internal/client/route"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/pause"
	"github.com/globalfs/globalfs/internal/posix"
)

// Locks has the operations on file locks.
type Locks struct {
	common
}

// LockRequest is a lock that an owner requests, releases or holds.
type LockRequest struct {
	Ino    posix.Ino
	Owner  uint64 // distinguishes the owners of this client
	PID    uint32 // process of the owner; 0: of another client
	Start  uint64 // first byte; a lock of flock covers all bytes
	End    uint64 // last byte, included; math.MaxInt64 and above: all bytes from Start on
	Write  bool   // exclusive; otherwise shared
	Unlock bool   // release the range, whatever its mode
	Flock  bool   // a lock of flock(2), independent of the ranges of fcntl(2)
}

func (r *LockRequest) command(op meta.Op) *meta.Command {
	c := &meta.Command{Op: op, Ino: r.Ino, Owner: r.Owner, PID: r.PID, Offset: r.Start}
	if r.End < math.MaxInt64 {
		c.Length = r.End - r.Start + 1 // 0 means the same
	}
	if r.Write {
		c.Flags |= meta.LockWrite
	}
	if r.Unlock {
		c.Flags |= meta.LockUnlock
	}
	if r.Flock {
		c.Flags |= meta.LockFlock
	}
	return c
}

// Lock takes, changes or releases a lock, as F_SETLK does. EAGAIN: a lock of another owner conflicts. ENOLCK:
// the inode has too many locks. Locks hold among all clients. They belong to the client's session in the
// inode's home and end with it.
func (l *Locks) Lock(ctx context.Context, r LockRequest) error {
	if r.Start > r.End {
		return posix.EINVAL
	}
	_, err := l.router.Update(ctx, r.command(meta.OpLock), route.Partition(r.Ino.Partition()))
	return err
}

// Pauses between queries for a lock that others hold, if the replica does not keep the query: it has an older
// version, or too many queries wait. The actual pause is random, between half of the value and the value.
const (
	firstLockPause = 5 * time.Millisecond
	maxLockPause   = 500 * time.Millisecond
)

// A replica that keeps a query answers it after a second at the latest (meta.AwaitLock). A query that took
// keptAtLeast counts as kept. A client with a timeout below keptTimeout requests immediate answers.
const (
	keptAtLeast = 500 * time.Millisecond
	keptTimeout = 4 * time.Second
)

// LockWait is like Lock, but waits while locks of other owners conflict. It returns EINTR when ctx ends. When
// a lock ends, the replica answers the waiters in their order, but a later request of another owner may still
// be ordered first. Two owners that wait for each other wait until one of them gives up.
//
// As with flock(2), an owner that waits to change the mode of a flock releases the flock that it has. Two
// owners that share a lock can thus both wait for an exclusive lock.
func (l *Locks) LockWait(ctx context.Context, r LockRequest) error {
	err := l.Lock(ctx, r)
	if err == posix.EAGAIN && r.Flock {
		let := r
		let.Unlock = true
		if err := l.Lock(ctx, let); err != nil {
			return err
		}
	}
	for wait := firstLockPause; err == posix.EAGAIN; {
		// LockWait queries the nearest replica first: waiting puts nothing into the order.
		asked := time.Now()
		_, held, looked := l.locked(ctx, r, route.Partition(r.Ino.Partition()), l.awaiting())
		switch {
		case looked != nil:
			return looked
		case !held:
			err = l.Lock(ctx, r)
		case time.Since(asked) >= keptAtLeast:
			wait = firstLockPause
		default:
			if err := pause.Between(ctx, wait/2, wait); err != nil {
				return l.outcome(err)
			}
			wait = min(2*wait, maxLockPause)
		}
	}
	return err
}

// awaiting returns the flags of a query that must wait at the replica.
func (l *Locks) awaiting() uint32 {
	if l.cfg.Timeout < keptTimeout {
		return 0
	}
	return meta.AwaitLock
}

// Locked returns the first lock that conflicts with r, as F_GETLK does. The answer is not older than the
// call.
func (l *Locks) Locked(ctx context.Context, r LockRequest) (LockRequest, bool, error) {
	return l.locked(ctx, r, route.Partition(r.Ino.Partition()).Fresh(), 0)
}

func (l *Locks) locked(ctx context.Context, r LockRequest, at route.Target, flags uint32) (by LockRequest, held bool, err error) {
	if r.Start > r.End {
		return by, false, posix.EINVAL
	}
	command := r.command(meta.OpGetLock)
	command.Flags |= flags
	a, err := l.router.Query(ctx, command, at.AsSession())
	if err != nil || a.Data == nil {
		return by, false, err
	}
	lock, err := meta.DecodeFileLock(a.Data)
	if err != nil {
		return by, false, l.outcome(err)
	}
	by = LockRequest{
		Ino: r.Ino, Owner: lock.Owner, PID: lock.PID, Start: lock.Start, End: lock.End, Write: lock.Write, Flock: lock.Flock,
	}
	if lock.Session != a.Session {
		by.PID = 0 // a process number of another machine has no meaning here
	}
	return by, true, nil
}
