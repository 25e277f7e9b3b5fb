package mount

import (
	"context"
	"errors"
	"sync"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"github.com/globalfs/globalfs/internal/client"
	"github.com/globalfs/globalfs/internal/posix"
)

// GetLk implements fcntl(F_GETLK).
func (f *fileSystem) GetLk(cancel <-chan struct{}, in *fuse.LkIn, out *fuse.LkOut) fuse.Status {
	ctx, end := f.waits.reading(cancel, in.Pid)
	defer end()
	by, held, err := f.client.Locked(ctx, lockRequest(in))
	if err != nil {
		return status(err)
	}
	out.Lk = in.Lk
	out.Lk.Typ = unix.F_UNLCK
	if held {
		out.Lk = fuse.FileLock{Start: by.Start, End: by.End, Typ: unix.F_RDLCK, Pid: by.PID}
		if by.Write {
			out.Lk.Typ = unix.F_WRLCK
		}
	}
	return fuse.OK
}

// SetLk implements fcntl(F_SETLK), and flock with LOCK_NB or LOCK_UN. It first waits until the locks of files
// that were just closed on this mount are released.
func (f *fileSystem) SetLk(cancel <-chan struct{}, in *fuse.LkIn) fuse.Status {
	closed := f.locks.flushed(ino(&in.InHeader), ownerOf(in)) // their locks may end between the first attempt and its answer
	return f.lock(cancel, in, func(ctx context.Context, r client.LockRequest) error {
		err := f.client.Lock(ctx, r)
		if errors.Is(err, posix.EAGAIN) && len(closed) > 0 {
			awaitReleases(ctx, closed)
			if err := f.settled(ctx, r.Ino); err != nil {
				return err
			}
			err = f.client.Lock(ctx, r)
		}
		return err
	})
}

// SetLkw implements fcntl(F_SETLKW), and flock that waits. It ends at each signal, because it may wait for
// ever.
func (f *fileSystem) SetLkw(cancel <-chan struct{}, in *fuse.LkIn) fuse.Status {
	return f.lock(cancel, in, f.client.LockWait)
}

func (f *fileSystem) lock(cancel <-chan struct{}, in *fuse.LkIn, ask func(context.Context, client.LockRequest) error) fuse.Status {
	r, o := lockRequest(in), ownerOf(in)
	if r.Unlock {
		ctx, end := f.waits.changing(cancel, &in.InHeader)
		defer end()
		if err := f.written.settleLocked(ctx, f.client, r.Ino); err != nil {
			return status(err)
		}
		return status(f.unlock(ctx, r, o))
	}
	ctx, end := f.waits.until(cancel)
	defer end()
	if err := f.settled(ctx, r.Ino); err != nil {
		return status(err)
	}
	if f.locks.holds(r.Ino, o) { // the change of the lock may let others in
		if err := f.written.settleLocked(ctx, f.client, r.Ino); err != nil {
			return status(err)
		}
	}
	attempt := f.locks.begin(r.Ino, o)
	err := ask(ctx, r)
	f.locks.end(r.Ino, o, attempt, err)
	if err == nil {
		// Reads under the lock must see all writes that others made under it. So the kernel gets all
		// earlier notices, asks for the attributes of this file again, and drops its pages if the
		// attributes have changed.
		f.notices.catchUp(ctx)
		f.notices.forget(r.Ino)
	}
	return status(err)
}

// unlock is not interrupted, because the program assumes that the lock is released.
func (f *fileSystem) unlock(ctx context.Context, r client.LockRequest, o lockOwner) error {
	before := f.locks.quiet(r.Ino, o)
	err := f.client.Lock(ctx, r)
	if err == nil && (r.Flock || r.Start == 0 && r.End >= lastByte) {
		f.locks.forget(r.Ino, o, before)
	}
	return err
}

// ownerOf returns the owner of the lock that the kernel requests.
func ownerOf(in *fuse.LkIn) lockOwner {
	r := lockRequest(in)
	return lockOwner{file: in.Fh, owner: r.Owner, flock: r.Flock}
}

// lastByte is the last byte of a file that a lock can cover.
const lastByte = 1<<63 - 1

// lockRequest decodes the kernel's request. The owner of a flock is the open file: the kernel's own number of
// the owner is an address, which it may use again before it has informed the mount of the close.
func lockRequest(in *fuse.LkIn) client.LockRequest {
	r := client.LockRequest{
		Ino: ino(&in.InHeader), Owner: in.Owner, PID: in.Lk.Pid, Start: in.Lk.Start, End: in.Lk.End,
		Write: in.Lk.Typ == unix.F_WRLCK, Unlock: in.Lk.Typ == unix.F_UNLCK, Flock: in.LkFlags&fuse.LK_FLOCK != 0,
	}
	if r.Flock {
		r.Owner = in.Fh
	}
	return r
}

// Flush is sent at each close of a descriptor. It ends the fcntl locks of the process on the file, whichever
// descriptor took them. Before that it orders the content that was written to the file. If the client holds
// the file exclusively, the content is only put into the log, from which it survives the death of this
// process. If there are locks on the file, content of all files is ordered before.
func (f *fileSystem) Flush(cancel <-chan struct{}, in *fuse.FlushIn) fuse.Status {
	ctx, end := f.waits.changing(cancel, &in.InHeader)
	defer end()
	err := f.written.settleDescriptor(ctx, ino(&in.InHeader), in.Fh)
	if lost := f.persister.close(&in.InHeader, descriptor{number: in.Fh}); lost != nil {
		err = lost
	}
	f.locks.flush(ino(&in.InHeader), in.Fh)
	f.endLocks(ino(&in.InHeader), f.locks.ofProcess(ino(&in.InHeader), in.LockOwner))
	return status(err)
}

// endFileLocks releases the locks that were taken through an open file, at its last close: flocks, and open
// file description locks, for which the kernel sends no request.
func (f *fileSystem) endFileLocks(ino posix.Ino, file uint64) {
	f.endLocks(ino, f.locks.ofFile(ino, file))
}

// endLocks releases all locks of some owners. It returns after at most one timeout of the client, and
// continues in the background until it succeeds, because no other code releases these locks while the mount
// lives.
func (f *fileSystem) endLocks(ino posix.Ino, owners []lockOwner) {
	var all sync.WaitGroup
	for _, o := range owners {
		settle := f.locks.ending(ino, o)
		all.Go(func() {
			if f.endLock(ino, o) {
				settle()
				return
			}
			f.endLater(unsettled{ino, o, settle})
		})
	}
	all.Wait()
}

// endLater repeats the release of locks until it succeeds, in the background. When the mount is suspended,
// the next process that serves the mount continues.
func (f *fileSystem) endLater(u unsettled) {
	f.locks.background.Go(func() {
		for !f.endLock(u.ino, u.owner) {
			if f.waits.paused() {
				f.locks.postpone(u)
				return
			}
		}
		u.settle()
	})
}

// endLeft continues to release the locks that another process left.
func (f *fileSystem) endLeft() {
	for _, u := range f.locks.takePostponed() {
		f.endLater(u)
	}
}

// endLock releases all locks of o on an inode. It reports whether o has no lock any more, or no session that
// could hold one.
func (f *fileSystem) endLock(ino posix.Ino, o lockOwner) bool {
	ctx, cancel := context.WithTimeout(f.waits.life, f.client.Timeout())
	defer cancel()
	if f.written.settleLocked(ctx, f.client, ino) != nil {
		return false
	}
	err := f.unlock(ctx, client.LockRequest{Ino: ino, Owner: o.owner, End: lastByte, Unlock: true, Flock: o.flock}, o)
	return err == nil || !errors.Is(err, posix.ETIMEDOUT) && !f.waits.paused()
}

// settled waits until no release of locks on ino is under way.
func (f *fileSystem) settled(ctx context.Context, ino posix.Ino) error {
	if !f.client.Hard() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, f.client.Timeout())
		defer cancel()
	}
	return f.locks.settled(ctx, ino)
}
