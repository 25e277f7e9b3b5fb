package client

import (
	"context"
	"math"
	"time"

	"github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/pause"
	"github.com/globalfs/globalfs/internal/posix"
)

// LockRequest is a lock that an owner wants, wants to let go or has.
type LockRequest struct {
	Ino    posix.Ino
	Owner  uint64 // tells the owners of this client apart
	PID    uint32 // of the process; 0: of another client
	Start  uint64 // first byte; flock has all of them
	End    uint64 // last byte, included; math.MaxInt64 and above: to the end, however far that will be
	Write  bool   // exclusive; otherwise shared
	Unlock bool   // let the range go, whatever its mode
	Flock  bool   // flock's kind, which does not see fcntl's ranges
}

func (r *LockRequest) command(op meta.Op) *meta.Command {
	c := &meta.Command{Op: op, Ino: r.Ino, Owner: r.Owner, PID: r.PID, Offset: r.Start}
	if r.End < math.MaxInt64 {
		c.Length = r.End - r.Start + 1 // otherwise 0, which means the same
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

// Lock takes, changes or lets go of a lock, as F_SETLK does: EAGAIN if another owner is in the way, ENOLCK if too
// many are on the inode. Locks hold among all clients. They are kept where the inode's session is: they end with it.
func (c *Client) Lock(ctx context.Context, r LockRequest) error {
	if r.Start > r.End {
		return posix.EINVAL
	}
	p, err := c.home(r.Ino)
	if err != nil {
		return err
	}
	ctx, cancel := c.operation(ctx)
	defer cancel()
	_, err = c.applyIn(ctx, parties{ask: p}, r.command(meta.OpLock))
	return c.outcome(err)
}

// Pauses between looks at a lock that others hold.
const (
	firstLockPause = 5 * time.Millisecond
	maxLockPause   = 500 * time.Millisecond
)

// LockWait is Lock, but waits while others are in the way, until ctx ends: EINTR. Nothing is kept of who waits, so there is no
// order among waiters, and two owners that wait for each other do so until one gives up.
//
// As with flock(2), who waits to change the mode of a flock lets go of the one it has: two that share it can
// thus both wait for an exclusive one.
func (c *Client) LockWait(ctx context.Context, r LockRequest) error {
	err := c.Lock(ctx, r)
	if err == posix.EAGAIN && r.Flock {
		let := r
		let.Unlock = true
		if err := c.Lock(ctx, let); err != nil {
			return err
		}
	}
	for wait := firstLockPause; err == posix.EAGAIN; wait = min(2*wait, maxLockPause) {
		if err := pause.Between(ctx, wait/2, wait); err != nil {
			return c.outcome(err)
		}
		// The nearest replica is asked first: waiting puts nothing into the order.
		_, held, looked := c.locked(ctx, r, reading)
		if looked != nil {
			return looked
		}
		if !held {
			err = c.Lock(ctx, r)
		}
	}
	return err
}

// Locked gives the first lock that is in the way of r, as F_GETLK does, as of a time after the call.
func (c *Client) Locked(ctx context.Context, r LockRequest) (LockRequest, bool, error) {
	return c.locked(ctx, r, ordering)
}

// locked asks the nearest replica, or with ordering what is newest.
func (c *Client) locked(ctx context.Context, r LockRequest, class class) (by LockRequest, held bool, err error) {
	if r.Start > r.End {
		return by, false, posix.EINVAL
	}
	p, err := c.home(r.Ino)
	if err != nil {
		return by, false, err
	}
	ctx, cancel := c.operation(ctx)
	defer cancel()
	command := r.command(meta.OpGetLock).Append(nil)
	var session uint64 // none: this client has no lock
	if s := p.session(); s != nil {
		session = s.id
	}
	reply, _, err := c.exchange(ctx, p, class, func() ask.Request {
		return ask.Request{
			Kind: ask.Query, Session: session, Vector: c.vector.snapshot(),
			Fresh: class == ordering || c.cfg.Linearizable, Command: command,
		}
	})
	if err != nil {
		return by, false, c.outcome(err)
	}
	answer, err := c.result(p, &reply)
	if err != nil || answer.Data == nil {
		return by, false, c.outcome(err)
	}
	l, err := meta.DecodeFileLock(answer.Data)
	if err != nil {
		return by, false, c.outcome(err)
	}
	by = LockRequest{Ino: r.Ino, Owner: l.Owner, PID: l.PID, Start: l.Start, End: l.End, Write: l.Write, Flock: l.Flock}
	if l.Session != session {
		by.PID = 0 // a number of another machine's says nothing here
	}
	return by, true, nil
}
