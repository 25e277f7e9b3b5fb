package mount

import (
	"context"
	"encoding/json"
	"time"

	"github.com/globalfs/globalfs/internal/client"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/mount/serve"
)

// ClientState returns the state for the client of the process that takes a mount over (client.Config.Resume).
func ClientState(handed *serve.Handed) (*client.State, error) {
	s, err := serve.DecodeState(handed.State)
	if err != nil {
		return nil, err
	}
	return client.DecodeState(s.Client)
}

// Connect implements serve.FileSystem.
func (f *fileSystem) Connect(k *serve.Kernel) {
	f.kernel, f.notices.kernel = k, k
	if f.client != nil {
		k.OnOverflow(func() { f.notices.add(meta.Change{}) })
		f.client.OnChange(f.notices.add)
	}
}

// Interrupt implements serve.Requests.
func (f *fileSystem) Interrupt() { f.waits.suspend() }

// Continue implements serve.Requests.
func (f *fileSystem) Continue() {
	f.waits.goOn()
	f.endLeft()
}

// Abandon implements serve.Requests.
func (f *fileSystem) Abandon() { f.waits.end() }

// Close implements serve.Requests.
func (f *fileSystem) Close() {
	f.written.finish()
	f.waits.end()
	f.notices.close()
	f.locks.background.Wait()
}

// Suspend implements serve.Transfer.
func (f *fileSystem) Suspend(s *serve.State) error {
	if f.written.settleWithin(f.client.Timeout()) != nil { // the next process would not have the content
		return serve.ErrBusy
	}
	if giveBack(f.client) != nil { // the next process does not know the held directories
		return serve.ErrBusy
	}
	of := f.client.Suspend()
	f.locks.background.Wait()
	return f.fill(s, of)
}

// giveBack returns all directories that a client holds.
func giveBack(c *client.Client) error {
	ctx, cancel := context.WithTimeout(context.Background(), c.Timeout())
	defer cancel()
	return c.GiveBack(ctx)
}

// Resume implements serve.Transfer.
func (f *fileSystem) Resume() {
	if f.client.Suspended() {
		f.client.Resume()
	}
}

// Snapshot implements serve.Transfer.
func (f *fileSystem) Snapshot(s *serve.State) error { return f.fill(s, f.client.Snapshot()) }

// Adopt implements serve.Transfer.
func (f *fileSystem) Adopt(s *serve.State) error {
	if err := reach(f.client, s.Dir, s.Root); err != nil {
		return err
	}
	f.adopt(s)
	return nil
}

// fill sets the part of a state that the file system and its client have.
func (f *fileSystem) fill(s *serve.State, of *client.State) (err error) {
	s.Running, s.Files, s.Listings = of.Running, f.files.Load(), f.listings.count()
	s.Refused, s.Holders, s.Lost = f.retries.threads(), f.locks.state(), f.written.lost()
	s.Reported = f.persister.state()
	s.Client, err = json.Marshal(of)
	return err
}

// unknownHandles is an upper bound of the handles that a process gives between its last reported state and
// its death.
const unknownHandles = 1 << 32

// adopt continues from a state. It is called before the first request is served.
func (f *fileSystem) adopt(s *serve.State) {
	if s.Running {
		s.Files += unknownHandles
		s.Listings += unknownHandles
	}
	f.files.Store(s.Files)
	f.listings.last, f.listings.inherited = s.Listings, s.Listings
	for _, thread := range s.Refused {
		f.retries.refused[thread] = time.Now()
	}
	for i := range s.Holders {
		f.locks.adopt(&s.Holders[i])
	}
	f.written.adopt(s.Lost)
	f.persister.adopt(s.Reported)
	f.notices.inheritedUntil = time.Now().Add(trustTime + trustSlack)
}

func (l *listings) count() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.last
}

// threads returns the threads whose next open is a retry.
func (r *retries) threads() (threads []uint32) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for thread, last := range r.refused {
		if time.Since(last) < retryWithin {
			threads = append(threads, thread)
		}
	}
	return threads
}

// state returns all owners that may hold locks.
func (l *locks) state() (all []serve.LockOwner) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for ino, owners := range l.held {
		for o, t := range owners {
			all = append(all, serve.LockOwner{
				Ino: ino, File: o.file, Owner: o.owner, Flock: o.flock, Closed: time.Since(t.flushed) < closeDelay,
				Ending: l.endings[ino] != nil && l.endings[ino].owners[o] > 0,
			})
		}
	}
	return all
}

// adopt adds an owner of another process.
func (l *locks) adopt(s *serve.LockOwner) {
	o := lockOwner{file: s.File, owner: s.Owner, flock: s.Flock}
	l.end(s.Ino, o, l.begin(s.Ino, o), nil)
	if s.Ending {
		l.postpone(unsettled{s.Ino, o, l.ending(s.Ino, o)})
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if s.Closed {
		l.held[s.Ino][o].flushed = time.Now()
	}
}
