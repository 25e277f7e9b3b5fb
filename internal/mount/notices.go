package mount

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/globalfs/globalfs/internal/client"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/mount/serve"
	"github.com/globalfs/globalfs/internal/posix"
)

// maxNotices bounds the changes whose notices are not sent yet. Beyond it, the kernel must refresh
// everything.
const maxNotices = 1 << 12

// noticeStuck is the time after which a notice that does not return ends the long caching of attributes.
const noticeStuck = 5 * time.Second

// notices inform the kernel of names and attributes that other mounts have changed. For the notice of a name
// the kernel takes the lock of the directory. So a separate goroutine sends notices, and no request waits for
// the notice of a name. Notices wait for the requests that they concern: requests in the directory, and
// requests whose answer describes the inode.
//
// If the kernel processes an answer with attributes after a notice of the inode, it drops the answer. A read
// that has asked for the attributes then uses an old size. So each notice, each lock, and each open of a
// changed file begins a time without notices of the inode, in which the kernel does not cache its attributes
// (forget). While the inode is locked through this mount, there are no notices of it either, and the kernel
// caches its attributes for Config.CacheTime.
type notices struct {
	kernel    *serve.Kernel
	client    *client.Client
	locks     *locks
	cacheTime time.Duration
	logger    *slog.Logger

	mu             sync.Mutex
	trusted        trusted                  // GUARDED_BY mu
	changes        ownChanges               // GUARDED_BY mu
	inheritedUntil time.Time                // until then the kernel may cache attributes that another process gave it
	waiting        []meta.Change            // GUARDED_BY mu
	queued         map[meta.Change]struct{} // GUARDED_BY mu; the changes in waiting
	added          uint64                   // number of changes that were ever added to waiting
	done           uint64                   // number of those whose notices were sent or dropped
	runs           bool                     // the goroutine of run exists
	sending        posix.Ino                // inode of the notice that is being sent; 0: none
	began          time.Time                // begin of the present notice; zero: none is being sent
	sent           chan struct{}            // closed after the next notice; nil: no waiters
	closed         bool                     // GUARDED_BY mu
}

// init prepares the notices of a file system.
func (n *notices) init(f *fileSystem) {
	n.client, n.locks, n.cacheTime, n.logger = f.client, &f.locks, f.cacheTime, f.logger
	n.trusted, n.queued = newTrusted(), map[meta.Change]struct{}{}
}

// add queues the notices of a change by another mount. Kind 0 means that everything may have changed.
func (n *notices) add(c meta.Change) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed || !n.concerns(&c) {
		return
	}
	if len(n.waiting) >= maxNotices {
		c = meta.Change{}
	}
	if _, known := n.queued[c]; known {
		return
	}
	n.queued[c] = struct{}{}
	n.waiting = append(n.waiting, c)
	n.added++
	if !n.runs {
		n.runs = true
		go n.run()
	}
}

// concerns reports whether the kernel may have cached the changed part. The caller holds mu.
func (n *notices) concerns(c *meta.Change) bool {
	switch c.Kind {
	case meta.ChangedAttr, meta.ChangedPlace:
		_, ok := n.trusted.get(c.Ino)
		return ok || time.Now().Before(n.inheritedUntil)
	case meta.ChangedNames:
		return false
	}
	return true
}

// run sends notices until the queue is empty.
func (n *notices) run() {
	for {
		n.mu.Lock()
		batch := n.waiting
		n.waiting = nil
		clear(n.queued)
		if n.runs = len(batch) > 0 && !n.closed; !n.runs {
			n.wake()
			n.mu.Unlock()
			return
		}
		n.mu.Unlock()
		for i := range batch {
			n.send(&batch[i])
			n.mu.Lock()
			n.done++
			n.wake()
			n.mu.Unlock()
		}
	}
}

// wake wakes the goroutines that wait for a notice. The caller holds mu.
func (n *notices) wake() {
	if n.sent != nil {
		close(n.sent)
		n.sent = nil
	}
}

// send sends the notices of a change.
func (n *notices) send(c *meta.Change) {
	switch c.Kind {
	case meta.ChangedName:
		n.expireName(client.Name{Dir: c.Ino, Name: c.Name})
	case meta.ChangedAttr, meta.ChangedPlace:
		n.expireAttr(c.Ino)
	case 0:
		n.expireAll()
	}
}

// expireName makes the kernel look a name up again. Other names in the directory expire after
// Config.CacheTime.
func (n *notices) expireName(at client.Name) {
	n.begin(0)
	n.kernel.ExpireEntry(at.Dir, at.Name, func() { n.add(meta.Change{Kind: meta.ChangedName, Ino: at.Dir, Name: at.Name}) })
	n.end()
}

// expireAttr makes the kernel ask for the attributes of an inode. If the kernel has learned of the inode a
// moment ago, with a name, a notice of that name is sent first. It takes the lock of the directory, so it
// comes after the kernel has processed the answer.
func (n *notices) expireAttr(ino posix.Ino) {
	again := func() { n.add(meta.Change{Kind: meta.ChangedAttr, Ino: ino}) }
	n.mu.Lock()
	last, _ := n.trusted.get(ino)
	n.mu.Unlock()
	if at := last.name; at.Dir != 0 && time.Since(last.at) < time.Second {
		n.begin(0)
		done := n.kernel.ExpireEntry(at.Dir, at.Name, again)
		n.end()
		if !done {
			return
		}
	}
	n.begin(ino)
	n.mu.Lock()
	last, ok := n.trusted.get(ino)
	n.trusted.remove(ino)
	n.trusted.calmDown(ino)
	n.mu.Unlock()
	if (ok || time.Now().Before(n.inheritedUntil)) && !n.kernel.ExpireAttributes(ino, again) { // otherwise the kernel has forgotten the inode
		n.mu.Lock()
		n.trusted.put(ino, last)
		n.mu.Unlock()
	}
	n.end()
}

// expireAll makes the kernel ask for all trusted attributes.
func (n *notices) expireAll() {
	n.mu.Lock()
	inos := n.trusted.inodes()
	n.mu.Unlock()
	for _, ino := range inos {
		n.expireAttr(ino)
	}
}

// begin records that a notice is being sent.
func (n *notices) begin(ino posix.Ino) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.sending, n.began = ino, time.Now()
}

// end records that the notice was sent or dropped.
func (n *notices) end() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if time.Since(n.began) > noticeStuck {
		n.logger.Warn("the kernel took long to take in a change by another mount: programs wait in this directory", "inode", n.sending, "time", time.Since(n.began))
	}
	n.sending, n.began = 0, time.Time{}
	n.wake()
}

// belief is the use that the kernel may make of attributes.
type belief int

const (
	brief     belief = iota // use them for Config.CacheTime: no notice of a change will follow
	overtaken               // use them once: they may be from before an own change
	calm                    // use them once: a notice was sent a moment ago, and no other is sent for calmTime
	lasting                 // use them until a notice
)

// believe records that the kernel will cache the attributes of an inode from the answer to a request.
func (n *notices) believe(a *posix.Attr, name client.Name, by serve.Order) belief {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case !by.IsAfter(n.changes.last(a.Ino)):
		return overtaken
	case n.trusted.isCalm(a.Ino):
		return calm
	case n.isStuck():
		return brief
	}
	g := given{at: time.Now(), name: name, version: versionOf(a), by: by}
	if before, ok := n.trusted.get(a.Ino); ok {
		g.doubt = n.doubt(&before)
	}
	if !n.trusted.add(a.Ino, g) {
		return brief
	}
	return lasting
}

// doubt returns the time of the newest answer that the kernel may not have processed. It is zero if the
// kernel has processed all answers. The caller holds mu.
func (n *notices) doubt(g *given) time.Time {
	if n.kernel.IsProcessed(g.by) {
		return g.doubt
	}
	return g.at
}

// isStuck reports whether the kernel does not return from a notice. The caller holds mu.
func (n *notices) isStuck() bool { return !n.began.IsZero() && time.Since(n.began) > noticeStuck }

// opened makes the kernel ask for the attributes of a file that is being opened, if the kernel may have older
// ones.
func (n *notices) opened(a *posix.Attr) {
	n.mu.Lock()
	last, trusts := n.trusted.get(a.Ino)
	pending := n.runs
	n.mu.Unlock()
	switch {
	case trusts && last.version == versionOf(a):
	case !pending && n.client.ChangedHere(a): // no notice of an earlier change follows
		n.kernel.ForgetAttributes(uint64(a.Ino))
	default:
		n.forget(a.Ino)
	}
}

// changed invalidates attributes from before an own change that are on their way to the kernel, because own
// changes have no notice. The caller has not answered the request of the change yet. The kernel itself knows
// that the change has made older attributes invalid.
func (n *notices) changed(inos ...posix.Ino) {
	for _, ino := range inos {
		n.mu.Lock()
		n.changes.add(ino, n.kernel.Begun())
		last, trusts := n.trusted.get(ino)
		underWay := trusts && time.Since(n.doubt(&last)) < time.Second
		n.mu.Unlock()
		if underWay {
			n.kernel.ForgetAttributes(uint64(ino))
		}
	}
}

// ownChanges has the newest changes of inodes by this mount, in places that inodes share: the number of
// requests that had begun at the end of the change. Attributes in answers to these requests may be older.
type ownChanges [1 << 8]uint64

func (c *ownChanges) add(ino posix.Ino, begun uint64) { c[int(ino%posix.Ino(len(c)))] = begun }

func (c *ownChanges) last(ino posix.Ino) (begun uint64) { return c[int(ino%posix.Ino(len(c)))] }

// forget makes the kernel ask for the attributes of an inode. It begins a time without notices of them, so
// that no later notice makes the kernel drop the answer.
func (n *notices) forget(ino posix.Ino) {
	n.mu.Lock()
	n.trusted.calmDown(ino)
	n.trusted.remove(ino)
	for n.sending == ino && !n.isStuck() {
		n.awaitSent(noticeStuck)
	}
	n.mu.Unlock()
	n.kernel.ForgetAttributes(uint64(ino))
}

// awaitSent waits for the end of the present notice. The caller holds mu, which awaitSent releases while it
// waits.
func (n *notices) awaitSent(most time.Duration) {
	if n.sent == nil {
		n.sent = make(chan struct{})
	}
	sent := n.sent
	n.mu.Unlock()
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case <-sent:
	case <-timer.C:
	}
	n.mu.Lock()
}

// catchUp returns when the kernel has the notices of all changes that this client has seen. If the client
// does not learn of all changes in time, the kernel drops everything.
func (n *notices) catchUp(ctx context.Context) {
	if n.cacheTime == 0 {
		return
	}
	if !n.client.CatchUp(ctx, n.cacheTime) {
		n.add(meta.Change{})
	}
	n.settle(ctx)
}

// settle returns when the kernel has the notices of all changes that the client has applied, except those
// that wait for a request.
func (n *notices) settle(ctx context.Context) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for all := n.added; n.done < all && n.runs && !n.isStuck() && ctx.Err() == nil; {
		n.awaitSent(100 * time.Millisecond)
	}
}

// close ends the notices. It drops those that wait.
func (n *notices) close() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.closed, n.waiting = true, nil
	clear(n.queued)
}
