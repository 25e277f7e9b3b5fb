package serve

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// Keeper sends the state of a mount to its Holder, for the next daemon.
type Keeper struct {
	link      *link
	mount     *Mount
	log       *Log // nil: there is none
	inherited inheritedLog
	dirty     atomic.Bool // the state has changed since it was sent

	mu     sync.Mutex // held while sending
	failed bool       // GUARDED_BY mu; the holder does not receive messages any more
	apart  bool       // GUARDED_BY mu; the holder has released the mount
}

// saveEvery is the time between two states, unless a lock changes.
const saveEvery = 100 * time.Millisecond

// Keep makes the holder keep a mount until its end, with the current state and all later ones. It is called
// once, before anything else depends on the mount.
func (k *Keeper) Keep(m *Mount) error {
	k.mount = m
	if err := k.link.giveDevice(m); err != nil {
		return err
	}
	k.save()
	m.server.keeper.Store(k)
	m.background.Go(k.keep)
	return nil
}

func (l *link) giveDevice(m *Mount) error {
	file, err := m.server.conn.share()
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	return l.send(wordMount, int(file.Fd()))
}

// letGo informs the holder that a successor may serve the mount from now on: the holder must not start
// another daemon for it.
func (k *Keeper) letGo() {
	if k == nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.apart = true
	_ = k.link.send(wordLeft) // fails only if the holder has ended
}

// holdAgain undoes letGo.
func (k *Keeper) holdAgain() error {
	if k == nil {
		return nil
	}
	k.mu.Lock()
	apart := k.apart
	k.apart = false
	k.mu.Unlock()
	if !apart {
		return nil
	}
	if err := errors.Join(k.link.giveDevice(k.mount), k.giveLog(k.log)); err != nil {
		return err
	}
	k.save()
	return nil
}

// keep saves changes of the state, until the mount has ended.
func (k *Keeper) keep() {
	ticker := time.NewTicker(saveEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			if k.dirty.Swap(false) {
				k.save()
			}
		case <-k.mount.done:
			_ = k.link.Close()
			return
		}
	}
}

// save sends the holder the current state.
func (k *Keeper) save() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.failed || k.apart {
		return
	}
	if err := k.send(); err != nil {
		k.failed = true
		k.mount.logger.Error("the process that holds the mount is gone: if this one dies, the mount ends", "dir", k.mount.dir, "error", err)
	}
}

func (k *Keeper) send() error {
	packed, err := k.mount.state(k.mount.fs.Snapshot, nil)
	if err != nil {
		return err
	}
	return k.link.sendState(packed)
}

// answered is called before the answer to a request is written.
func (k *Keeper) answered(r *request) {
	switch {
	case k == nil || r.isQuiet():
	case r.op() == opSetLk || r.op() == opSetLkw:
		k.save() // the program relies on the lock
	default:
		k.dirty.Store(true)
	}
}
