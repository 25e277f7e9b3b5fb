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
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/pause"
	"github.com/globalfs/globalfs/internal/posix"
)

// Constants of the cache of names.
const (
	// watchLinger is the longest time that a replica waits with its answer. If a replica is silent for longer
	// than that and some time for the network, the client stops to use cached names.
	watchLinger = time.Second
	// watchStale is the age of the last answered request from which on cached names are not used. The age is
	// twice watchLinger and a way through the network before the next answer arrives.
	watchStale = 3 * watchLinger
	// watchIdle is the time without a lookup after which the client stops to watch a partition.
	watchIdle = 10 * time.Second
	// watchPause is the pause between two requests, unless the stream lags: it bounds their rate.
	watchPause = time.Millisecond
	// watchAgain is the pause after a replica has failed, and watchLater that after one that cannot watch.
	watchAgain, watchLater = 200 * time.Millisecond, time.Minute
)

// After this number of lookups of absent names in a directory, the client asks for all its names, up to this
// number.
var listings = []struct {
	misses int
	names  uint64
}{{8, 512}, {128, meta.MaxEntries - 1}}

// leases caches names as long as replicas report the changes of their partitions (package lease).
type leases struct {
	router  *route.Router
	changed atomic.Pointer[func(dir posix.Ino, name string)] // nil: no caller wants the changes
	held    []*held                                          // by partition; nil: nothing is cached
}

// held is the cache of one partition, with its watcher.
type held struct {
	id uint16

	mu      sync.Mutex
	cache   *lease.Cache       // GUARDED_BY mu
	runs    bool               // GUARDED_BY mu; the watcher
	used    time.Time          // GUARDED_BY mu
	hurry   bool               // GUARDED_BY mu; the next answer must not wait
	asked   time.Time          // GUARDED_BY mu; when the last request that was answered was sent
	waiting context.CancelFunc // GUARDED_BY mu; ends the request that waits; nil: it does not wait
}

func newLeases(cfg *Config) *leases {
	l := &leases{}
	if cfg.CacheNames && !cfg.Linearizable {
		for i := range cfg.Cluster.Partitions {
			l.held = append(l.held, &held{id: cfg.Cluster.Partitions[i].ID, cache: lease.New()})
		}
	}
	return l
}

// of returns the cache of a partition. Nil: the client caches no names.
func (l *leases) of(partition uint16) *held {
	if int(partition) >= len(l.held) {
		return nil
	}
	return l.held[partition]
}

// isName reports whether a name can be cached. For other names the replica returns the error.
func isName(name string) bool {
	return name != "" && name != "." && name != ".." && len(name) <= posix.MaxName
}

// absent reports whether the cache knows that a directory does not have a name.
func (l *leases) absent(at Name) bool {
	p, err := l.router.At(at.Dir)
	if err != nil || !isName(at.Name) {
		return false
	}
	h := l.of(p)
	if h == nil {
		return false
	}
	seen := l.router.Seen(p)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.use(l)
	if h.isStale(time.Now()) {
		h.cache.Cut()
	}
	found := h.cache.Find(lease.Name(at), seen)
	h.poke(h.cache.Lags(seen))
	return found == lease.Absent
}

// isStale reports whether the last answered request is too old for cached names: an answer is overdue, or the
// machine was asleep. The wall clock goes on during sleep, the monotonic one does not. The caller holds mu.
func (h *held) isStale(now time.Time) bool {
	return max(now.Sub(h.asked), now.Round(0).Sub(h.asked.Round(0))) > watchStale
}

// use records a use of the cache, and starts the watcher. The caller holds mu.
func (h *held) use(l *leases) {
	h.used = time.Now()
	if !h.runs {
		h.runs = true
		l.router.Go(func(life context.Context) { l.watch(life, h) })
	}
}

// poke ends the request that waits, if the stream lags or if directories were added. If the stream lags, the
// watcher asks again at once. The caller holds mu.
func (h *held) poke(lags bool) {
	if !lags && !h.cache.Grown() || h.waiting == nil {
		return
	}
	h.hurry = h.hurry || lags
	h.waiting()
	h.waiting = nil
}

// found stores the answer of a replica to a lookup: present or absent. It reports whether the name was
// changed meanwhile.
func (l *leases) found(at Name, a *route.Answer, present bool) (changed bool) {
	h := l.of(a.Partition)
	if h == nil || a.Held || !isName(at.Name) {
		return false
	}
	finding := lease.Absent
	if present {
		finding = lease.Present
	}
	h.mu.Lock()
	misses := h.cache.Learn(lease.Name(at), finding, a.Seen)
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
	if cookie == 0 && uint64(len(a.Entries)) < min(limit, meta.MaxEntries) {
		names := make([]string, len(a.Entries))
		for i := range a.Entries {
			names[i] = a.Entries[i].Name
		}
		h.cache.List(dir, names, a.Seen)
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
	if life.Err() != nil || time.Since(h.used) > watchIdle {
		h.runs = false
		h.cache.Cut()
		return ask.Watching{}, false
	}
	linger := watchLinger
	if h.hurry {
		linger = 0
	}
	h.hurry = false
	return h.cache.Watching(linger), true
}

// wait stores the function that ends the request that is sent now.
func (h *held) wait(end context.CancelFunc, linger time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.waiting = nil; linger > 0 {
		h.waiting = end
	}
}

func (h *held) isHurried() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.hurry
}

// take applies an answer to the cache, and reports changes by other clients.
func (l *leases) take(h *held, x *ask.Changes, err error, poked bool, sent time.Time) {
	h.mu.Lock()
	h.waiting = nil
	var foreign []ask.Change
	switch {
	case err == nil:
		foreign, _ = h.cache.Take(x)
		h.asked = sent
	case !poked:
		h.cache.Cut()
	}
	h.mu.Unlock()
	changed := l.changed.Load()
	if changed == nil {
		return
	}
	for i := range foreign {
		if c := &foreign[i]; c.Kind == meta.ChangedName {
			(*changed)(c.Ino, c.Name)
		}
	}
}
