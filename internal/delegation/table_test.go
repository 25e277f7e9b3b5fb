package delegation

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/kv"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
)

// world is a partition with grants.
type world struct {
	t *testing.T
	*Table
	keys *kv.Store
	m    *meta.Machine
	log  uint64
}

const holder = uint64(7)

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, keys: kv.NewMemory(), log: 1}
	var err error
	w.m, err = meta.New(w.keys, meta.Config{Partition: 3})
	require.NoError(t, err)
	w.load()
	require.True(t, w.Begin(holder, w.log))
	w.AddNumbers(holder, meta.TakeNumbers(w.m, SpansPerGrant*SpanSize, SpanSize))
	return w
}

func (w *world) load() {
	w.t.Helper()
	t, err := Load(w.keys)
	require.NoError(w.t, err)
	w.Table = t
}

// mkdir makes a directory in the root and gives it to the holder.
func (w *world) mkdir(name string) posix.Ino {
	w.t.Helper()
	r := w.m.Apply(&meta.Command{Op: meta.OpMknod, Ino: posix.MakeIno(3, 1), Name: name, Mode: posix.TypeDir | 0o755}, 1)
	require.Equal(w.t, posix.OK, r.Code)
	require.True(w.t, w.Grant(holder, r.Attr.Ino))
	w.Save()
	return r.Attr.Ino
}

func (w *world) create(dir posix.Ino, name string, mode posix.Mode) Op {
	w.t.Helper()
	number, ok := w.NextNumber(holder, dir)
	require.True(w.t, ok)
	return Op{Command: meta.Command{Op: meta.OpMknod, Ino: dir, Name: name, Mode: mode, Flags: meta.Exclusive, Child: number}}
}

func (w *world) run(first uint64, ops ...Op) Done {
	w.t.Helper()
	x := Batch{Log: w.log, First: first, Ops: ops}
	decoded, err := DecodeBatch(x.Append(nil))
	require.NoError(w.t, err)
	done := w.Run(w.m, Place{Session: holder, Counter: 1}, &decoded)
	back, err := DecodeDone(done.Append(nil))
	require.NoError(w.t, err)
	require.Equal(w.t, done, back)
	return done
}

// alsoAfterReload runs a check now, and on the state that is stored.
func (w *world) alsoAfterReload(check func()) {
	w.t.Helper()
	check()
	w.Save()
	w.load()
	check()
}

// W2: a batch is executed once, in sequence, without gaps.
func TestBatchesAreExecutedOnceInSequence(t *testing.T) {
	w := newWorld(t)
	dir := w.mkdir("d")
	a := w.create(dir, "a", posix.TypeRegular|0o644)
	require.Equal(t, Done{Next: 2}, w.run(1, a))
	require.Equal(t, Done{Next: 2}, w.run(1, a), "a copy of the batch")
	b := w.create(dir, "b", posix.TypeRegular|0o644)
	require.Equal(t, Done{Next: 2}, w.run(3, b), "a gap")
	w.alsoAfterReload(func() { require.Equal(t, Done{Next: 2}, w.run(1, a)) })
	require.Equal(t, Done{Next: 3}, w.run(1, a, b), "an overlap")
	_, exists := meta.EntryOf(w.m, dir, "b")
	require.True(t, exists)
}

// W3, W4: nothing of a grant that has ended takes effect, and the log stops for good.
func TestNothingAfterTheEndOfAGrant(t *testing.T) {
	w := newWorld(t)
	dir := w.mkdir("d")
	op := w.create(dir, "a", posix.TypeRegular|0o644)
	w.Revoke(holder+1, dir)
	require.Equal(t, holder, w.Holder(dir), "another session does not have it")
	w.Revoke(holder, dir)
	require.Len(t, w.TakeEnded(), 1)
	require.Empty(t, w.TakeEnded())
	require.Equal(t, Done{Next: 1, Stopped: true}, w.run(1, op))
	other := w.mkdir("e")
	w.alsoAfterReload(func() {
		require.Equal(t, Done{Next: 1, Stopped: true}, w.run(1, w.create(other, "a", posix.TypeRegular|0o644)))
	})
	_, exists := meta.EntryOf(w.m, other, "a")
	require.False(t, exists)
}

// The log stops at an operation with another outcome than success.
func TestALogStopsAtAnotherOutcome(t *testing.T) {
	w := newWorld(t)
	dir := w.mkdir("d")
	unlink := Op{Command: meta.Command{Op: meta.OpUnlink, Ino: dir, Name: "none"}}
	require.Equal(t, Done{Next: 1, Stopped: true, Code: posix.ENOENT}, w.run(1, unlink, w.create(dir, "a", posix.TypeRegular|0o644)))
}

// A newer log ends all grants, and an older one is refused.
func TestLogs(t *testing.T) {
	w := newWorld(t)
	dir := w.mkdir("d")
	op := w.create(dir, "a", posix.TypeRegular|0o644)
	w.log = 2
	require.Equal(t, Done{Next: 1}, w.run(1))
	require.Zero(t, w.Holder(dir))
	require.Zero(t, w.Len())
	w.log = 1
	require.True(t, w.run(1, op).Stopped)
	require.False(t, w.Begin(holder, 1))
	w.EndSession(holder)
	w.alsoAfterReload(func() { require.Zero(t, w.Len()) })
	require.True(t, w.Begin(holder, 1), "the session is not known any more")
}

// Directories that are made in a held one are held, until they are removed. Files belong to the grant of the
// directory in which they were made.
func TestCoverage(t *testing.T) {
	w := newWorld(t)
	outer, other := w.mkdir("d"), w.mkdir("e")
	w.run(1, w.create(outer, "sub", posix.TypeDir|0o755))
	sub, _ := meta.EntryOf(w.m, outer, "sub")
	require.True(t, sub.IsDir)
	w.run(2, w.create(sub.Ino, "f", posix.TypeRegular|0o644))
	file, _ := meta.EntryOf(w.m, sub.Ino, "f")
	w.alsoAfterReload(func() {
		require.Equal(t, []posix.Ino{sub.Ino, outer, other}, w.Dirs(holder))
		require.True(t, w.CoversAll(holder, []meta.Object{sub, file}))
		require.False(t, w.Covers(holder+1, file))
		require.False(t, w.CoversAll(holder, nil))
	})
	rename := Op{Command: meta.Command{Op: meta.OpRename, Ino: sub.Ino, Name: "f", NewParent: other, NewName: "g"}}
	require.Equal(t, Done{Next: 4}, w.run(3, rename))
	require.Equal(t, []posix.Ino{sub.Ino}, w.Holders([]meta.Object{file}))
	require.Equal(t, Done{Next: 5}, w.run(4, Op{Return: sub.Ino}))
	require.False(t, w.Covers(holder, file))
	require.False(t, w.Covers(holder, sub), "its number is in a span of the outer directory")
	require.Equal(t, Done{Next: 5, Stopped: true}, w.run(5, Op{Command: meta.Command{Op: meta.OpUnlink, Ino: other, Name: "g"}}))
}

// A removed directory is not held any more; a directory that moves is not for a log.
func TestDirectoriesInLogs(t *testing.T) {
	w := newWorld(t)
	outer := w.mkdir("d")
	w.run(1, w.create(outer, "sub", posix.TypeDir|0o755), w.create(outer, "sub", posix.TypeDir|0o755))
	w = newWorld(t)
	outer = w.mkdir("d")
	require.Equal(t, Done{Next: 2}, w.run(1, w.create(outer, "sub", posix.TypeDir|0o755)))
	require.Len(t, w.Dirs(holder), 2)
	require.Equal(t, Done{Next: 3}, w.run(2, Op{Command: meta.Command{Op: meta.OpRmdir, Ino: outer, Name: "sub"}}))
	require.Equal(t, []posix.Ino{outer}, w.Dirs(holder))
	require.Equal(t, Done{Next: 4}, w.run(3, w.create(outer, "sub", posix.TypeDir|0o755)))
	move := Op{Command: meta.Command{Op: meta.OpRename, Ino: outer, Name: "sub", NewParent: outer, NewName: "other"}}
	require.Equal(t, Done{Next: 4, Stopped: true}, w.run(4, move))
}

// W10: a number is given once, by the session that has its span, in one directory.
func TestNumbers(t *testing.T) {
	w := newWorld(t)
	a, b := w.mkdir("a"), w.mkdir("b")
	first := w.create(a, "f", posix.TypeRegular|0o644)
	require.Equal(t, Done{Next: 2}, w.run(1, first))
	require.Equal(t, Done{Next: 3}, w.run(2, Op{Command: meta.Command{Op: meta.OpUnlink, Ino: a, Name: "f"}}))
	w.m.Reap(first.Command.Child, 1)
	require.False(t, meta.Has(w.m, first.Command.Child))
	for name, number := range map[string]posix.Ino{
		"used before":              first.Command.Child,
		"of a span that was given": posix.MakeIno(3, 1<<40),
		"none":                     0,
	} {
		op := w.create(a, "g", posix.TypeRegular|0o644)
		op.Command.Child = number
		_, covered := w.Execute(w.m, Place{Session: holder}, &op)
		require.False(t, covered, name)
	}
	op := w.create(b, "g", posix.TypeRegular|0o644)
	op.Command.Child = first.Command.Child + 1
	_, covered := w.Execute(w.m, Place{Session: holder}, &op)
	require.False(t, covered, "of a span of another directory")
	spare := w.Spare(holder)
	for i := range SpanSize {
		op := w.create(a, string(rune('a'+i%26))+string(rune('a'+i/26)), posix.TypeRegular|0o644)
		r, covered := w.Execute(w.m, Place{Session: holder}, &op)
		require.True(t, covered)
		require.Equal(t, posix.OK, r.Code)
	}
	require.Equal(t, spare-1, w.Spare(holder), "a second span")
}

func TestRecall(t *testing.T) {
	w := newWorld(t)
	a, b := w.mkdir("a"), w.mkdir("b")
	touched := []meta.Object{{Ino: a, IsDir: true}}
	require.False(t, w.Awaits(touched))
	require.True(t, w.Recall(touched, holder+1, 5))
	require.False(t, w.Recall([]meta.Object{{Ino: posix.MakeIno(3, 1), IsDir: true}}, holder+1, 5))
	w.alsoAfterReload(func() {
		require.Equal(t, []posix.Ino{a}, w.Recalled(holder))
		require.Empty(t, w.Recalled(holder+1))
		require.True(t, w.Awaits(touched))
		require.False(t, w.Awaits(append(touched, meta.Object{Ino: b, IsDir: true})), "one of them is not recalled yet")
	})
	require.Equal(t, Done{Next: 2}, w.run(1, w.create(a, "f", posix.TypeRegular|0o644)), "the holder works until it returns the directory")
	w.run(2, Op{Return: a})
	require.Empty(t, w.Recalled(0))
	require.False(t, w.Recall(touched, holder+1, 5))
}

func TestClear(t *testing.T) {
	w := newWorld(t)
	w.mkdir("a")
	Clear(w.keys)
	w.load()
	require.Zero(t, w.Len())
	require.False(t, w.Begin(holder, 0) && w.Spare(holder) > 0)
}

func TestMalformed(t *testing.T) {
	for _, b := range [][]byte{nil, {1}, {1, 0, 0}, {0, 1, 0}, {1, 1, 1, 0, 0, 0}, {1, 1, 1, 0, 9, 1, 99}} {
		_, err := DecodeBatch(b)
		require.Error(t, err, "%x", b)
	}
	place := meta.Command{Op: meta.OpPlace, Ino: 1}
	x := Batch{Log: 1, First: 1, Ops: []Op{{Command: place}}}
	_, err := DecodeBatch(x.Append(nil))
	require.ErrorContains(t, err, "not for a batch")
	_, err = DecodeDone(nil)
	require.Error(t, err)
	for _, k := range [][]byte{{grantPrefix}, {logPrefix, 1}} {
		keys := kv.NewMemory()
		keys.Set(k, []byte{1})
		_, err := Load(keys)
		require.Error(t, err)
	}
	keys := kv.NewMemory()
	keys.Set(key(grantPrefix, 5), (&grant{dir: 5, session: 9}).encode())
	_, err = Load(keys)
	require.ErrorContains(t, err, "no log")
}

func FuzzDecodeBatch(f *testing.F) {
	x := Batch{Log: 1, First: 1, Ops: []Op{{Return: 5}, {Command: meta.Command{Op: meta.OpUnlink, Ino: 1, Name: "a"}}}}
	f.Add(x.Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		if x, err := DecodeBatch(b); err == nil {
			again, err := DecodeBatch(x.Append(nil))
			require.NoError(t, err)
			require.Equal(t, x.Append(nil), again.Append(nil))
		}
	})
}

// A bound client does not recall a protected directory, and waits for it. Another client recalls it.
func TestProtectedDirectories(t *testing.T) {
	const second = posix.Time(time.Second)
	w := newWorld(t)
	dir := w.mkdir("d")
	touched, now := []meta.Object{{Ino: dir, IsDir: true}, {Ino: dir + 1<<20}}, posix.Time(1000e9)
	regain := func() {
		w.Revoke(holder, dir)
		l := w.logs[holder]
		require.True(t, w.Answer(w.m, holder, &Ask{Dir: dir, Log: l.number, Number: l.lastRequest + 1}, now))
	}
	recalls := func() bool {
		require.True(t, w.Recall(touched, 0, now), "it waits")
		require.Equal(t, len(w.Recalled(0)) == 0, now < w.ProtectedUntil(touched, now))
		return len(w.Recalled(0)) > 0
	}
	require.True(t, recalls())
	now += second / 100
	regain()
	require.False(t, recalls(), "after a second")
	now += second - second/100 - 1
	w.alsoAfterReload(func() { require.False(t, recalls()) })
	now++
	require.True(t, recalls())
	now += second / 4
	regain()
	now += awayShare*second/4 - second/4 - 1
	require.False(t, recalls(), "it was away for long")
	now++
	require.True(t, recalls())
	now += 3600 * second
	regain()
	require.True(t, recalls(), "the holder did not miss it")
	w.Revoke(holder, dir)
	require.False(t, w.Recall(touched, 0, now), "it is free")
	regain()
	now -= 1800 * second
	require.True(t, recalls(), "the clocks differ")
	regain()
	require.False(t, recalls())
	require.True(t, w.Recall(touched, holder+1, now))
	require.Equal(t, []posix.Ino{dir}, w.Recalled(0))
}

// Of too many protected directories, the one whose protection ends first is forgotten.
func TestProtectionsAreBounded(t *testing.T) {
	w := newWorld(t)
	for i := range posix.Ino(maxProtected + 10) {
		w.protections.recalled(100+i, posix.Time(1+i))
	}
	require.Len(t, w.protections.dirs, maxProtected)
	require.NotContains(t, w.protections.dirs, posix.Ino(109))
	again, err := loadProtections(w.protections.keys)
	require.NoError(t, err)
	require.Equal(t, w.protections.dirs, again.dirs)
}
