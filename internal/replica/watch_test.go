package replica

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
)

// watching returns a request to watch.
func watching(session uint64, w ask.Watching) ask.Request {
	return ask.Request{Kind: ask.Watch, Session: session, Command: w.Append(nil)}
}

// changesOf returns the answer to a request to watch.
func changesOf(t *testing.T, p ask.Reply) ask.Changes {
	t.Helper()
	require.Equal(t, ask.Answered, p.Status, string(p.Result))
	c, err := ask.DecodeChanges(p.Result)
	require.NoError(t, err)
	return c
}

// after returns the next request after an answer.
func after(c *ask.Changes, linger time.Duration, dirs ...posix.Ino) ask.Watching {
	w := ask.Watching{History: c.History, From: c.To, Mark: c.Mark, Linger: linger, Interest: ask.NewInterest(len(dirs))}
	for _, dir := range dirs {
		w.Interest.Add(dir)
	}
	return w
}

func namesOf(c *ask.Changes) (names []string) {
	for i := range c.List {
		names = append(names, fmt.Sprintf("%s %t %d", c.List[i].Name, c.List[i].Own, c.List[i].Place))
	}
	return names
}

// A client gets the changes after a place in their order; a relevant change by another client comes at once.
func TestWatch(t *testing.T) {
	f := newFixture(t)
	f.open(7)
	f.open(8)
	start := changesOf(t, f.one(watching(7, ask.Watching{})))
	require.Equal(t, f.count(), start.To)
	_, m := f.do(7, 1, mknod("a"))
	require.Equal(t, posix.OK, m.Code)
	one := changesOf(t, f.one(watching(7, after(&start, 0))))
	require.False(t, one.Lost)
	require.Equal(t, []string{fmt.Sprintf("a true %d", start.To+1)}, namesOf(&one))

	f.step(watching(7, after(&one, time.Second, posix.Root)))
	parked := f.token
	f.step(watching(7, after(&one, time.Second)))
	careless := f.token
	replies := f.step(updateOf(7, 2, mknod("b")))
	require.NotContains(t, replies, parked, "an own change is not urgent")
	replies = f.step(updateOf(8, 1, mknod("c")))
	require.Contains(t, replies, parked)
	require.NotContains(t, replies, careless)
	both := changesOf(t, replies[parked])
	require.Equal(t, []string{fmt.Sprintf("b true %d", one.To+1), fmt.Sprintf("c false %d", one.To+2)}, namesOf(&both))
	require.Equal(t, f.count(), both.To)
	require.LessOrEqual(t, f.Wake(), f.mono+time.Second)
	f.mono += time.Second
	replies = f.step()
	require.Contains(t, replies, careless, "its time is over")
	require.Equal(t, both.List, func() []ask.Change { c := changesOf(t, replies[careless]); return c.List }())

	// Withdrawn requests are forgotten.
	f.step(watching(7, after(&both, time.Second, posix.Root)))
	f.withdraw([]uint64{f.token})
	require.Empty(t, f.watches.parked)

	f.restart()
	require.NotContains(t, f.step(watching(7, after(&both, time.Second, posix.Root))), f.token, "nothing was missed")
	old := changesOf(t, f.one(watching(7, after(&start, time.Second, posix.Root))))
	require.True(t, old.Lost, "a replica that has started does not know what was before")
	wrong := after(&old, time.Second, posix.Root)
	wrong.Mark++
	other := changesOf(t, f.one(watching(7, wrong)))
	require.True(t, other.Lost, "another entry has this place")
	ahead := after(&old, 0)
	ahead.From += 100
	behind := changesOf(t, f.one(watching(7, ahead)))
	require.False(t, behind.Lost)
	require.Less(t, behind.To, ahead.From)
}

func updateOf(session, seq uint64, c meta.Command) ask.Request {
	return ask.Request{Kind: ask.Update, Session: session, Seq: seq, Done: seq - 1, Command: c.Append(nil)}
}

// Changes of attributes are for clients that ask for them: for these they are urgent, too.
func TestWatchOfAttributes(t *testing.T) {
	f := newFixture(t)
	f.open(7)
	f.open(8)
	_, m := f.do(7, 1, mknod("a"))
	start := changesOf(t, f.one(watching(7, ask.Watching{})))
	chmod := meta.Command{Op: meta.OpSetAttr, Ino: m.Attr.Ino, Set: meta.SetMode, Attr: posix.Attr{Mode: 0o600}}
	f.step(watching(7, after(&start, time.Second, m.Attr.Ino)))
	old := f.token
	w := after(&start, time.Second, m.Attr.Ino)
	w.Attrs = true
	f.step(watching(7, w))
	asking := f.token
	replies := f.step(updateOf(8, 1, chmod))
	require.NotContains(t, replies, old)
	require.Contains(t, replies, asking)
	c := changesOf(t, replies[asking])
	require.True(t, c.Attrs)
	require.Equal(t, []ask.Change{{Change: meta.Change{Kind: meta.ChangedAttr, Ino: m.Attr.Ino}, Place: start.To + 1}}, c.List)
	f.mono += time.Second
	c = changesOf(t, f.step()[old])
	require.False(t, c.Attrs)
	require.Empty(t, c.List)
	require.Equal(t, start.To+1, c.To)

	// An update of a name changes the name, its directory and its inode, each once.
	w = after(&c, 0)
	w.Attrs = true
	f.do(8, 2, mknod("b"))
	c = changesOf(t, f.one(watching(7, w)))
	require.Equal(t, []meta.ChangeKind{meta.ChangedName, meta.ChangedAttr, meta.ChangedAttr}, []meta.ChangeKind{c.List[0].Kind, c.List[1].Kind, c.List[2].Kind})
	require.Len(t, c.List, 3)
}

// The kept changes are bounded, and so is an answer.
func TestWatchIsBounded(t *testing.T) {
	f := newFixture(t)
	start := changesOf(t, f.one(watching(0, ask.Watching{})))
	w := &f.watches
	own := f.cross.Own()
	for range maxPlaces {
		own.Count++
		w.keep(place{mark: own.Count, changes: slices.Repeat([]meta.Change{{Kind: meta.ChangedName}}, 8)})
	}
	require.LessOrEqual(t, w.kept, maxKept)
	require.LessOrEqual(t, len(w.places), maxPlaces)
	require.Equal(t, own.Count, w.end())
	q := &watch{Watching: after(&start, 0)}
	require.True(t, w.isLost(q))
	q.From, q.Mark = w.base, w.mark
	require.False(t, w.isLost(q))
	list, to := w.list(q)
	require.Len(t, list, ask.MaxChanges)
	require.Equal(t, w.base+ask.MaxChanges/8, to)
	w.note(own, 1, 0)
	require.Empty(t, w.places, "an entry was passed over")
}

// A bound client has a share of the waiting requests, and does not get the names in directories that it may
// not list.
func TestWatchOfABoundClient(t *testing.T) {
	f := newFixture(t)
	bound := someClient("laptop", 1000)
	f.open(7)
	secret := meta.Command{Op: meta.OpMknod, Ino: posix.Root, Name: "secret", Mode: posix.TypeDir | 0o700}
	_, m := f.do(7, 1, secret)
	require.Equal(t, posix.OK, m.Code)
	start := changesOf(t, f.as(bound, watching(0, ask.Watching{})))
	inside := mknod("hidden")
	inside.Ino = m.Attr.Ino
	f.do(7, 2, inside)
	f.do(7, 3, mknod("public"))
	c := changesOf(t, f.as(bound, watching(0, after(&start, 0))))
	require.Len(t, c.List, 2)
	require.Equal(t, meta.Change{Kind: meta.ChangedNames, Ino: m.Attr.Ino}, c.List[0].Change)
	require.Equal(t, meta.Change{Kind: meta.ChangedName, Ino: posix.Root, Name: "public"}, c.List[1].Change)
	all := changesOf(t, f.one(watching(0, after(&start, 0))))
	require.Equal(t, "hidden", all.List[0].Name)

	within := meta.Command{Op: meta.OpMknod, Ino: m.Attr.Ino, Name: "within", Mode: posix.TypeDir | 0o755}
	_, sub := f.do(7, 4, within)
	inside.Ino, start = sub.Attr.Ino, changesOf(t, f.as(bound, watching(0, ask.Watching{})))
	f.do(7, 5, inside)
	c = changesOf(t, f.as(bound, watching(0, after(&start, 0))))
	require.Equal(t, meta.Change{Kind: meta.ChangedNames, Ino: sub.Attr.Ino}, c.List[0].Change, "the directory above is private")
	f.do(7, 6, meta.Command{Op: meta.OpSetAttr, Ino: m.Attr.Ino, Set: meta.SetMode, Attr: posix.Attr{Mode: 0o711}})
	c = changesOf(t, f.as(bound, watching(0, after(&start, 0))))
	require.Equal(t, meta.Change{Kind: meta.ChangedName, Ino: sub.Attr.Ino, Name: "hidden"}, c.List[0].Change)

	f.watches.most = 4096
	f.from = bound
	for range MaxWatchesOfClient {
		require.NotContains(t, f.step(watching(0, after(&c, time.Minute))), f.token)
	}
	require.Equal(t, ask.Overloaded, f.one(watching(0, after(&c, time.Minute))).Status)
	f.from = nil
	require.NotContains(t, f.step(watching(0, after(&c, time.Minute))), f.token)
}

// Requests that are malformed are refused.
func TestWatchesThatAreRefused(t *testing.T) {
	f := newFixture(t)
	for _, command := range [][]byte{nil, {1}, (&ask.Watching{Interest: make([]byte, ask.MaxInterest+1)}).Append(nil), (&ask.Watching{Linger: time.Hour}).Append(nil)} {
		require.Equal(t, ask.Refused, f.one(ask.Request{Kind: ask.Watch, Command: command}).Status)
	}
	far := ask.Watching{From: 1 << 63, History: 1 << 40, Mark: 5, Interest: []byte{255}}
	require.True(t, func() bool { c := changesOf(t, f.one(watching(1, far))); return c.Lost }())
}
