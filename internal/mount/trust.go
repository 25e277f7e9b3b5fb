package mount

import (
	"maps"
	"slices"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/globalfs/globalfs/internal/client"
	"github.com/globalfs/globalfs/internal/mount/serve"
	"github.com/globalfs/globalfs/internal/posix"
)

const (
	// trustTime is the time for which the kernel caches attributes whose changes the client reports. Names
	// are cached for a shorter time, because a notice of a name waits for all requests in its directory,
	// however slow they are.
	trustTime = 30 * time.Second
	// trustSlack is an upper bound of the time from the decision about an answer to its arrival in the
	// kernel.
	trustSlack = 5 * time.Second
	// calmTime is the time after a notice of an inode's attributes in which no other is sent. The kernel
	// does not cache the attributes meanwhile.
	calmTime = 200 * time.Millisecond
	// maxTrusted bounds the inodes whose attributes the kernel caches for trustTime.
	maxTrusted = 1 << 16
)

// trusted has the inodes whose attributes the kernel caches until a notice. An entry is kept for at least
// trustTime + trustSlack. It is not safe for concurrent use.
type trusted struct {
	young, old map[posix.Ino]given
	since      time.Time               // the time at which young was made
	calm       map[posix.Ino]time.Time // inodes with a recent notice; no other notice is sent until then
	calmMost   int                     // size of calm at which old entries are removed
}

// given is the last answer with cached attributes of an inode.
type given struct {
	at   time.Time
	name client.Name // the name in the request; zero: none
	version
	by    serve.Order // the request
	doubt time.Time   // the time of an earlier answer that the kernel may not have processed; zero: none
}

func newTrusted() trusted {
	return trusted{young: map[posix.Ino]given{}, old: map[posix.Ino]given{}, calm: map[posix.Ino]time.Time{}}
}

// add adds an inode. It reports whether there was room.
func (t *trusted) add(ino posix.Ino, g given) bool {
	if g.at.Sub(t.since) > trustTime+trustSlack {
		t.young, t.old, t.since = map[posix.Ino]given{}, t.young, g.at
	}
	if _, ok := t.young[ino]; !ok && len(t.young) >= maxTrusted {
		return false
	}
	t.young[ino] = g
	return true
}

// put adds an inode that was removed a moment ago.
func (t *trusted) put(ino posix.Ino, g given) { t.young[ino] = g }

func (t *trusted) get(ino posix.Ino) (g given, ok bool) {
	if g, ok = t.young[ino]; !ok {
		g, ok = t.old[ino]
	}
	return g, ok
}

func (t *trusted) remove(ino posix.Ino) {
	delete(t.young, ino)
	delete(t.old, ino)
}

// inodes returns all inodes.
func (t *trusted) inodes() []posix.Ino {
	return slices.AppendSeq(slices.Collect(maps.Keys(t.young)), maps.Keys(t.old))
}

// calmDown begins a time without notices of the attributes of an inode. The kernel does not cache attributes
// from answers in this time.
func (t *trusted) calmDown(ino posix.Ino) {
	now := time.Now()
	if len(t.calm) >= max(maxTrusted/16, t.calmMost) {
		for i, until := range t.calm {
			if now.After(until) {
				delete(t.calm, i)
			}
		}
		t.calmMost = 2 * len(t.calm)
	}
	t.calm[ino] = now.Add(calmTime)
}

func (t *trusted) isCalm(ino posix.Ino) bool { return time.Now().Before(t.calm[ino]) }

// attrTime returns the time for which the kernel may cache the attributes in an answer: long if the next
// change by another mount will cause a notice, and 0 if there was a change already. name is the name in the
// request, if there is one.
//
// The order of the steps makes the notice reach the kernel after the answer: from Describe on notices of the
// inode wait for the answer, the entry in trusted makes the notice necessary, and Covers finds that there was
// no change before.
func (n *notices) attrTime(unique uint64, a *posix.Attr, name client.Name) time.Duration {
	if n.cacheTime == 0 {
		return 0
	}
	by, known := n.kernel.Describe(unique, a.Ino)
	if !known || n.locks.any(a.Ino) { // there are no notices of a locked inode
		return n.cacheTime
	}
	use := n.believe(a, name, by)
	if use == overtaken {
		return 0
	}
	switch covered := n.client.Covers(a, trustTime+trustSlack); {
	case covered == client.Outdated:
		return 0
	case use == brief || covered == client.Uncovered:
		return n.cacheTime
	case use == calm:
		return 0
	}
	return max(trustTime, n.cacheTime)
}

// entry sets the answer to a request for a name: the node and its attributes, which have the given age.
func (f *fileSystem) entry(h *fuse.InHeader, name string, out *fuse.EntryOut, a *posix.Attr, age time.Duration) {
	out.NodeId = uint64(a.Ino)
	fill(&out.Attr, a)
	f.setIDs.remember(a)
	out.SetEntryTimeout(max(0, f.cacheTime-age))
	out.SetAttrTimeout(max(0, f.notices.attrTime(h.Unique, a, client.Name{Dir: ino(h), Name: name})-age))
}

// attr sets the answer to a request for attributes.
func (f *fileSystem) attr(h *fuse.InHeader, out *fuse.AttrOut, a *posix.Attr) {
	fill(&out.Attr, a)
	f.setIDs.remember(a)
	out.SetTimeout(f.notices.attrTime(h.Unique, a, client.Name{}))
}
