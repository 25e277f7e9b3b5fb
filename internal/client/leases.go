package client

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/internal/client/lease"
	"github.com/globalfs/globalfs/internal/client/route"
	"github.com/globalfs/globalfs/internal/invariant"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/pause"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/topology"
)

// Constants of the cache of names and attributes.
const (
	// watchLinger is the longest time that a replica waits for changes before it answers a request to watch.
	watchLinger = time.Second
	// When the last answered request was sent watchStale ago, cached names are not used any more. While a
	// replica answers, this age is at most two times watchLinger, and the time of a message.
	watchStale = 3 * watchLinger
	// watchIdle is the time without a lookup after which the client stops to watch a partition.
	watchIdle = 10 * time.Second
	// watchPause is the pause between two requests, unless the stream lags: it bounds their rate.
	watchPause = time.Millisecond
	// watchAgain is the pause after a replica has failed; watchLater is the pause after a replica has
	// answered that it does not know requests to watch.
	watchAgain, watchLater = 200 * time.Millisecond, time.Minute
	// catchUp is the longest time for which a lookup waits for the stream, if the client has seen more than
	// the stream has reported. After that a replica is asked.
	catchUp = 5 * time.Millisecond
)

// listings are the steps by which the cache gets all names of a directory: after a number of lookups of
// absent names, the client asks for all names, if they are at most as many as the second number.
var listings = []struct {
	misses int
	names  uint64
}{{8, 512}, {128, meta.MaxEntries - 1}}

// leases caches names and attributes as long as replicas report the changes of their partitions (package
// lease).
type leases struct {
	router *route.Router
	// delegations answer for the inodes that they own: the cache knows only their ordered state. Nil: there
	// are none.
	delegations *delegations
	foreign     atomic.Pointer[func(meta.Change)] // nil: no caller uses the changes
	caches      bool
	held        route.ByPartition[*held] // empty: nothing is cached
}

// held is the cache of one partition, with its watcher.
type held struct {
	id uint16

	mu      sync.Mutex
	cache   *lease.Cache       // GUARDED_BY mu
	runs    bool               // GUARDED_BY mu; the watcher
	used    time.Time          // GUARDED_BY mu
	hurry   bool               // GUARDED_BY mu; the replica must answer the next request at once
	instant bool               // GUARDED_BY mu; such a request is under way
	sentAt  time.Time          // GUARDED_BY mu; the time at which the last answered request was sent
	waiting context.CancelFunc // GUARDED_BY mu; ends the request that waits; nil: it does not wait
	moved   chan struct{}      // GUARDED_BY mu; closed when the cache changes; nil: no waiters
	near    bool               // GUARDED_BY mu; the replica that answered last is in the client's region
	until   time.Time          // GUARDED_BY mu; the watcher runs at least until then: callers of OnChange rely on it
}

func newLeases(cfg *Config) *leases {
	l := &leases{caches: cfg.CacheNames && !cfg.Linearizable}
	l.grow(cfg.Cluster)
	return l
}

// grow makes the caches of all partitions of a cluster.
func (l *leases) grow(cluster *topology.Cluster) {
	if !l.caches {
		return
	}
	err := l.held.Grow(len(cluster.Partitions), func(i int) (*held, error) { return &held{id: uint16(i), cache: lease.New()}, nil })
	invariant.Check(err == nil, "caches of names: %v", err)
}

// of returns the cache of a partition. Nil: the client caches no names.
func (l *leases) of(partition uint16) *held {
	all := l.held.All()
	if int(partition) >= len(all) {
		return nil
	}
	return all[partition]
}

// isName reports whether a name can be cached. For other names the replica returns the error.
func isName(name string) bool {
	return name != "" && name != "." && name != ".." && len(name) <= posix.MaxName
}

// find returns the cache's knowledge of a name, with the inode of a present name.
func (l *leases) find(ctx context.Context, at Name) (found lease.Finding, ino posix.Ino) {
	if isName(at.Name) {
		l.look(ctx, at.Dir, func(c *lease.Cache, seen ask.Seen) { found, ino = c.Find(lease.Name(at), seen) })
	}
	return found, ino
}

// attr returns the attributes of an inode if the cache knows them.
func (l *leases) attr(ctx context.Context, ino posix.Ino) (attr posix.Attr, ok bool) {
	l.look(ctx, ino, func(c *lease.Cache, seen ask.Seen) { attr, ok = c.Attr(ino, seen) })
	return attr, ok
}

// listing returns all entries of a directory with fewer than limit entries, and the last cookie that the
// directory has given, if the cache knows them, and the state that the client has seen.
func (l *leases) listing(ctx context.Context, dir posix.Ino, limit uint64) (entries []meta.Entry, last uint64, as ask.Seen, ok bool) {
	l.look(ctx, dir, func(c *lease.Cache, seen ask.Seen) {
		as = seen
		entries, last, ok = c.Listing(dir, limit, seen)
	})
	return entries, last, as, ok
}

// look calls f with the cache of the partition of an inode, and with the state that the client has seen. If
// the watched replica is near, look waits for catchUp at most until the stream has reached this state.
func (l *leases) look(ctx context.Context, ino posix.Ino, f func(c *lease.Cache, seen ask.Seen)) {
	p, err := l.router.At(ino)
	if err != nil {
		return
	}
	h := l.of(p)
	if h == nil || l.delegations.owns(ino) {
		return
	}
	seen := l.router.Seen(p)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.use(l)
	if h.isStale(time.Now()) && h.cache.IsLive() {
		h.cache.Cut()
		l.report(meta.Change{})
	}
	lags := h.cache.Lags(seen)
	if lags && h.near {
		h.awaitStream(ctx, seen)
		lags = false
	}
	f(h.cache, seen)
	h.poke(lags)
}

// awaitStream waits until the stream has reached a state. The caller holds mu, which is free meanwhile.
func (h *held) awaitStream(ctx context.Context, seen ask.Seen) {
	ctx, cancel := context.WithTimeout(ctx, catchUp)
	defer cancel()
	for ctx.Err() == nil && h.cache.Lags(seen) {
		h.awaitMove(ctx)
	}
}

// changed wakes the goroutines that wait for the stream. The caller holds mu.
func (h *held) changed() {
	if h.moved != nil {
		close(h.moved)
		h.moved = nil
	}
}

// isStale reports whether the last answered request is too old for cached names: an answer is overdue, or the
// machine was asleep. The wall clock goes on during sleep, the monotonic one does not. The caller holds mu.
func (h *held) isStale(now time.Time) bool {
	return max(now.Sub(h.sentAt), now.Round(0).Sub(h.sentAt.Round(0))) > watchStale
}

// use records a use of the cache, and starts the watcher. The caller holds mu.
func (h *held) use(l *leases) {
	h.used = time.Now()
	if !h.runs {
		h.runs = true
		l.router.Go(func(life context.Context) { l.watch(life, h) })
	}
}

// poke makes the watcher send a new request if the stream lags, or if directories or attributes were added:
// it ends the request that waits at the replica. If the stream lags, the replica must answer the new
// request at once. The caller holds mu.
func (h *held) poke(lags bool) {
	if !lags && !h.cache.Grown() {
		return
	}
	h.hurry = h.hurry || lags && !h.instant
	if h.waiting != nil {
		h.waiting()
		h.waiting = nil
	}
}

// found stores the answer of a replica to a lookup: the attributes of the inode, nil if the name is
// absent. It reports whether the name was changed meanwhile.
func (l *leases) found(at Name, a *route.Answer, child *posix.Attr) (changed bool) {
	h := l.of(a.Partition)
	if h == nil || a.Held || !isName(at.Name) {
		return false
	}
	h.mu.Lock()
	ino := posix.Ino(0)
	if child != nil {
		ino = child.Ino
		h.cache.LearnAttr(child, a.Seen)
	}
	misses := h.cache.Learn(lease.Name(at), ino, a.Seen)
	changed = h.cache.IsOutdated(lease.Name(at), a.Seen)
	h.poke(false)
	h.mu.Unlock()
	for _, x := range listings {
		if misses == x.misses {
			l.router.Go(func(life context.Context) { l.list(life, at.Dir, x.names) })
		}
	}
	return changed
}

// described stores the attributes in the answer of a replica. It reports whether they were changed meanwhile.
func (l *leases) described(a *route.Answer) (changed bool) {
	h := l.of(a.Partition)
	if h == nil || a.Held {
		return false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.cache.LearnAttr(&a.Attr, a.Seen)
	h.poke(false)
	return h.cache.IsAttrOutdated(a.Attr.Ino, a.Seen)
}

// list asks for all names of a directory, if it has at most most names.
func (l *leases) list(ctx context.Context, dir posix.Ino, most uint64) {
	a, err := l.router.Query(ctx, &meta.Command{Op: meta.OpReadDir, Ino: dir, Length: most + 1}, route.Inode(dir))
	if err == nil {
		l.listed(dir, 0, most+1, &a)
	}
}

// listed stores names of a directory from an answer.
func (l *leases) listed(dir posix.Ino, cookie, limit uint64, a *route.Answer) {
	h := l.of(a.Partition)
	if h == nil || a.Held {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.use(l)
	h.cache.Use(dir)
	for i := range a.Entries {
		h.cache.LearnAttr(&a.Entries[i].Attr, a.Seen)
	}
	if cookie == 0 && uint64(len(a.Entries)) < min(limit, meta.MaxEntries) {
		h.cache.List(dir, a.Entries, a.Number, a.Seen)
	}
	h.poke(false)
}

// executed applies an update of this client to the cache. It is a route.Executed.
func (l *leases) executed(partition uint16, place ask.Seen, cmd *meta.Command, result *meta.Result) {
	h := l.of(partition)
	if h == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	lease.Apply(h.cache, partition, place, cmd, result)
	h.changed()
}

// watch asks for changes until the cache was not used for watchIdle.
func (l *leases) watch(life context.Context, h *held) {
	for {
		w, ok := h.begin(life)
		if !ok {
			return
		}
		ctx, cancel := context.WithCancel(life)
		h.wait(cancel, w.Linger)
		sent := time.Now()
		x, err := l.router.Watch(ctx, h.id, &w)
		poked := ctx.Err() != nil
		cancel()
		l.take(h, &x, err, poked, sent)
		again := watchPause
		switch {
		case errors.Is(err, route.ErrCannotWatch):
			again = watchLater
		case err != nil && !poked:
			again = watchAgain
		case h.isHurried():
			continue
		}
		_ = pause.For(life, again) // begin checks life
	}
}

// begin returns the next request; false: the watcher has ended.
func (h *held) begin(life context.Context) (ask.Watching, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if now := time.Now(); life.Err() != nil || now.Sub(h.used) > watchIdle && now.After(h.until) {
		h.runs = false
		h.cache.Cut()
		return ask.Watching{}, false
	}
	linger := watchLinger
	if h.hurry {
		linger = 0
	}
	h.hurry, h.instant = false, linger == 0
	return h.cache.Watching(linger), true
}

// wait stores the function that ends the request that is sent now. If a poke has come since begin made the
// request, wait ends it at once.
func (h *held) wait(end context.CancelFunc, linger time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch h.waiting = nil; {
	case linger == 0:
	case h.hurry || h.cache.Grown():
		end()
	default:
		h.waiting = end
	}
}

func (h *held) isHurried() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.hurry
}

// take applies an answer to the cache, and reports changes by other clients.
func (l *leases) take(h *held, x *route.Watched, err error, poked bool, sent time.Time) {
	h.mu.Lock()
	h.waiting, h.instant = nil, false
	var foreign []ask.Change
	all := false
	switch {
	case err == nil:
		foreign, all = h.cache.Take(&x.Changes)
		h.sentAt, h.near = sent, x.Near
		h.hurry = h.hurry || len(x.List) >= ask.MaxChanges/2 // there are probably more
	case !poked:
		h.cache.Cut()
		all = true
	}
	h.changed()
	h.mu.Unlock()
	if all {
		l.report(meta.Change{})
	}
	for i := range foreign {
		l.report(foreign[i].Change)
	}
}

// report reports a change by another client.
func (l *leases) report(c meta.Change) {
	if f := l.foreign.Load(); f != nil {
		(*f)(c)
	}
}
