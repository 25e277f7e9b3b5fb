package client

import (
	"context"
	"time"

	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
)

// OnChange sets f, which the client calls after another client has changed names or attributes in a watched
// partition. A change of kind 0 means that anything may have changed. When f is called, the client's own
// cache has the change already. f must not wait for operations of this client. OnChange requires
// Config.CacheNames.
func (c *Client) OnChange(f func(meta.Change)) {
	c.leases.foreign.Store(&f)
	c.leases.watchOn() // callers of a previous client may rely on its streams
}

// CatchUp returns when the client has reported (OnChange) all changes that it has seen to callers that rely
// on the reports (Covers). It returns false if that takes longer than most. After a break in a stream the
// client reports that anything may have changed.
func (c *Client) CatchUp(ctx context.Context, most time.Duration) bool {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	all := true
	for _, h := range c.leases.held.All() {
		all = c.leases.catchUp(ctx, h) && all
	}
	return all
}

// catchUp waits until the stream of a partition has reached all that the client has seen of the partition.
func (l *leases) catchUp(ctx context.Context, h *held) bool {
	seen := l.router.Seen(h.id)
	h.mu.Lock()
	defer h.mu.Unlock()
	for h.runs && h.cache.IsLive() && time.Now().Before(h.until) && !h.cache.HasReached(seen) && ctx.Err() == nil {
		h.awaitMove(ctx)
	}
	return ctx.Err() == nil
}

// awaitMove waits for the next change of the cache. The caller holds mu, which awaitMove releases while it
// waits.
func (h *held) awaitMove(ctx context.Context) {
	h.poke(true)
	if h.moved == nil {
		h.moved = make(chan struct{})
	}
	moved := h.moved
	h.mu.Unlock()
	select {
	case <-moved:
	case <-ctx.Done():
	}
	h.mu.Lock()
}

// Coverage is the knowledge of a client of changes of an inode's attributes by other clients.
type Coverage int

const (
	Uncovered Coverage = iota // the client does not learn of changes at once
	Outdated                  // the attributes are probably from before a change
	Covered                   // the client knows no newer attributes, and will report the next change at once
)

// Covers returns the client's knowledge of changes of attributes. If it is Covered, the client will report
// the next change by another client (OnChange) within milliseconds, and keeps the stream open at least for
// while. Only the stream of a replica in the client's region is fast enough.
func (c *Client) Covers(of *posix.Attr, while time.Duration) Coverage {
	return c.leases.cover(of, while)
}

// ChangedHere reports whether an update of this client has produced these attributes, and the client has
// reported all earlier changes.
func (c *Client) ChangedHere(of *posix.Attr) bool {
	p, ok := c.At(of.Ino)
	h := c.leases.of(p)
	if !ok || h == nil {
		return false
	}
	seen := c.router.Seen(p)
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.cache.IsOwn(of) && h.cache.HasReached(seen)
}

func (l *leases) cover(of *posix.Attr, while time.Duration) Coverage {
	p, err := l.router.At(of.Ino)
	if err != nil {
		return Uncovered
	}
	h := l.of(p)
	if h == nil || l.delegations.owns(of.Ino) {
		return Uncovered
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()
	switch {
	case !h.runs || !h.near || h.isStale(now):
		return Uncovered
	case h.cache.HasChanged(of):
		return Outdated
	case !h.cache.Holds(of):
		return Uncovered
	}
	if until := now.Add(while); until.After(h.until) {
		h.until = until
	}
	return Covered
}

// StreamState is the position of the client in the stream of changes of a partition.
type StreamState struct {
	Partition uint16 `json:"partition"`
	History   uint64 `json:"history,omitempty"`
	From      uint64 `json:"from"`
	Mark      uint64 `json:"mark"`
}

// streams returns the streams of all partitions that the client has watched.
func (l *leases) streams() (all []StreamState) {
	for _, h := range l.held.All() {
		h.mu.Lock()
		s := StreamState{Partition: h.id}
		var ok bool
		if s.History, s.From, s.Mark, ok = h.cache.Place(); ok {
			all = append(all, s)
		}
		h.mu.Unlock()
	}
	return all
}

// resumedFor is the time for which a client continues the streams of a previous one, because the kernel may
// rely on reports since the state of that client was saved.
const resumedFor = time.Minute

// resume continues the streams of a previous client. Once OnChange is called, it reports the changes since.
func (l *leases) resume(all []StreamState) {
	for i := range all {
		s := &all[i]
		h := l.of(s.Partition)
		if h == nil {
			continue
		}
		h.mu.Lock()
		h.cache.Resume(s.History, s.From, s.Mark)
		h.until = time.Now().Add(resumedFor)
		h.mu.Unlock()
	}
}

// watchOn starts the watchers of the streams on which callers rely.
func (l *leases) watchOn() {
	now := time.Now()
	for _, h := range l.held.All() {
		h.mu.Lock()
		if h.until.After(now) && !h.runs {
			h.runs = true
			l.router.Go(func(life context.Context) { l.watch(life, h) })
		}
		h.mu.Unlock()
	}
}
