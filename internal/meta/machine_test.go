package meta_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/kv"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
)

// fs is a machine with short words for the actions of tests.
type fs struct {
	t       *testing.T
	keys    *kv.Store
	m       *meta.Machine
	counter uint64
	horizon uint64 // of the session of all writes
}

func newFS(t *testing.T) *fs {
	keys := kv.NewMemory()
	m, err := meta.New(keys, meta.Config{Genesis: []meta.Birth{{Name: "us-west-2", Ino: posix.MakeIno(1, 1)}}})
	require.NoError(t, err)
	t.Cleanup(func() { require.Empty(t, meta.Check(keys)) })
	return &fs{t: t, keys: keys, m: m}
}

// do encodes, decodes and applies c. The time of c is its number.
func (f *fs) do(c meta.Command) meta.Result {
	f.t.Helper()
	f.counter++
	c.Time = posix.Time(f.counter)
	for _, k := range c.Blocks {
		c.Length += uint64(k.Length)
	}
	if c.Op == meta.OpWrite {
		c.Length += uint64(len(c.Data))
	}
	decoded, err := meta.DecodeCommand(c.Append(nil))
	require.NoError(f.t, err)
	decoded.Session, decoded.Horizon, decoded.Authority = 1, f.horizon, c.Authority
	if c.Op.IsQuery() {
		return f.m.Query(&decoded)
	}
	return f.m.Apply(&decoded, f.counter)
}

// must applies a command that succeeds.
func (f *fs) must(c meta.Command) posix.Attr {
	f.t.Helper()
	r := f.do(c)
	require.Equal(f.t, posix.OK, r.Code)
	return r.Attr
}

func (f *fs) fails(code posix.Code, c meta.Command) {
	f.t.Helper()
	require.Equal(f.t, meta.Result{Code: code}, f.do(c))
}

// remote is a command that needs an inode of another partition.
func (f *fs) remote(ino posix.Ino, at uint64, c meta.Command) {
	f.t.Helper()
	require.Equal(f.t, meta.Result{Code: posix.EREMOTE, Attr: posix.Attr{Ino: ino}, Number: at}, f.do(c))
}

func (f *fs) make(dir posix.Ino, name string, mode posix.Mode) posix.Ino {
	f.t.Helper()
	return f.must(meta.Command{Op: meta.OpMknod, Ino: dir, Name: name, Mode: mode, Flags: meta.Exclusive}).Ino
}

func (f *fs) stat(ino posix.Ino) posix.Attr {
	f.t.Helper()
	return f.must(meta.Command{Op: meta.OpGetAttr, Ino: ino})
}

func (f *fs) extents(ino posix.Ino) []meta.Extent {
	f.t.Helper()
	return f.do(meta.Command{Op: meta.OpExtents, Ino: ino, Length: posix.MaxSize}).Extents
}

func TestNewFindsWhatIsThere(t *testing.T) {
	f := newFS(t)
	ino := f.make(posix.Root, "a", 0o600)
	again, err := meta.New(f.keys, meta.Config{Time: 99})
	require.NoError(t, err)
	f.m = again
	require.Equal(t, posix.Mode(0o600), f.stat(ino).Mode.Perm())
	require.Equal(t, posix.MakeIno(0, ino.Counter()+1), f.make(posix.Root, "b", 0), "numbers go on")
}

func TestNewRefuses(t *testing.T) {
	keys := kv.NewMemory()
	_, err := meta.New(keys, meta.Config{Partition: 4})
	require.NoError(t, err)
	_, err = meta.New(keys, meta.Config{Partition: 5})
	require.ErrorContains(t, err, "partition 4, not 5")

	keys.Set([]byte{1}, []byte{99})
	_, err = meta.New(keys, meta.Config{Partition: 4})
	require.ErrorContains(t, err, "format 99")
	keys.Set([]byte{1}, []byte{4, 4})
	_, err = meta.New(keys, meta.Config{Partition: 4})
	require.ErrorContains(t, err, "malformed")

	for _, names := range [][]meta.Birth{
		{{Name: "a/b", Ino: posix.MakeIno(1, 1)}},
		{{Name: "..", Ino: posix.MakeIno(1, 1)}},
		{{Name: "a", Ino: posix.MakeIno(0, 9)}},
		{{Name: "a", Ino: posix.MakeIno(1, 1)}, {Name: "a", Ino: posix.MakeIno(2, 1)}},
	} {
		_, err := meta.New(kv.NewMemory(), meta.Config{Genesis: names})
		require.ErrorContains(t, err, "genesis")
	}
}

func TestBirth(t *testing.T) {
	f := newFS(t)
	root := f.stat(posix.Root)
	require.Equal(t, posix.Attr{Ino: posix.Root, Mode: posix.TypeDir | 0o755, Nlink: 3, Size: 1}, root)
	west := posix.Attr{Ino: posix.MakeIno(1, 1), Mode: posix.TypeDir}
	require.Equal(t, west, f.must(meta.Command{Op: meta.OpLookup, Ino: posix.Root, Name: "us-west-2"}))
	r := f.do(meta.Command{Op: meta.OpReadDir, Ino: posix.Root, Length: 9})
	require.Equal(t, []meta.Entry{{Name: "us-west-2", Cookie: 3, Attr: west, At: 1}}, r.Entries)

	local, err := meta.New(kv.NewMemory(), meta.Config{Partition: 1})
	require.NoError(t, err)
	up := local.Query(&meta.Command{Op: meta.OpLookup, Ino: posix.MakeIno(1, 1), Name: ".."})
	require.Equal(t, posix.Attr{Ino: posix.Root, Mode: posix.TypeDir}, up.Attr)
}

// The root of another partition stays where it is.
func TestForeignEntriesAreBusy(t *testing.T) {
	f := newFS(t)
	dir := f.make(posix.Root, "dir", posix.TypeDir|0o755)
	f.fails(posix.EBUSY, meta.Command{Op: meta.OpUnlink, Ino: posix.Root, Name: "us-west-2"})
	f.fails(posix.EBUSY, meta.Command{Op: meta.OpRmdir, Ino: posix.Root, Name: "us-west-2"})
	f.fails(posix.EBUSY, meta.Command{Op: meta.OpRename, Ino: posix.Root, Name: "us-west-2", NewParent: dir, NewName: "x"})
	f.fails(posix.EBUSY, meta.Command{Op: meta.OpRename, Ino: posix.Root, Name: "dir", NewParent: posix.Root, NewName: "us-west-2"})
	f.fails(posix.EBUSY, meta.Command{Op: meta.OpRename, Ino: posix.Root, Name: "dir", NewParent: posix.Root, NewName: "us-west-2", Flags: meta.RenameExchange})
	f.remote(posix.MakeIno(1, 1), 1, meta.Command{Op: meta.OpRename, Ino: posix.Root, Name: "dir", NewParent: posix.MakeIno(1, 1), NewName: "x"})
	f.remote(posix.MakeIno(1, 7), 1, meta.Command{Op: meta.OpLink, Ino: posix.MakeIno(1, 7), NewParent: posix.Root, NewName: "x"})
	f.fails(posix.ESTALE, meta.Command{Op: meta.OpMknod, Ino: posix.MakeIno(1, 1), Name: "x"})
	f.fails(posix.EISDIR, meta.Command{Op: meta.OpMknod, Ino: posix.Root, Name: "us-west-2"})
}

func TestOrphansLiveUntilReaped(t *testing.T) {
	f := newFS(t)
	ino := f.make(posix.Root, "a", 0o600)
	f.must(meta.Command{Op: meta.OpSetXattr, Ino: ino, Name: "user.x", Data: []byte("v")})
	f.must(meta.Command{Op: meta.OpLink, Ino: ino, NewParent: posix.Root, NewName: "b"})
	f.must(meta.Command{Op: meta.OpUnlink, Ino: posix.Root, Name: "a"})
	require.Empty(t, f.m.Orphans(0, 9))
	f.m.Reap(ino, 77)
	require.EqualValues(t, 0, f.must(meta.Command{Op: meta.OpUnlink, Ino: posix.Root, Name: "b"}).Nlink)
	gone := meta.Orphan{Ino: ino, Counter: f.counter}
	dir := f.make(posix.Root, "dir", posix.TypeDir)
	f.must(meta.Command{Op: meta.OpRmdir, Ino: posix.Root, Name: "dir"})
	require.Equal(t, []meta.Orphan{gone, {Ino: dir, Counter: f.counter}}, f.m.Orphans(0, 9))
	require.Equal(t, []meta.Orphan{gone}, f.m.Orphans(0, 1))
	require.Len(t, f.m.Orphans(ino, 9), 1)
	require.Empty(t, f.m.Orphans(1<<64-1, 9))

	f.must(meta.Command{Op: meta.OpWrite, Ino: ino, Data: []byte("still here")})
	f.fails(posix.ENOENT, meta.Command{Op: meta.OpLink, Ino: ino, NewParent: posix.Root, NewName: "c"})
	f.fails(posix.ENOENT, meta.Command{Op: meta.OpMknod, Ino: dir, Name: "x"})
	f.fails(posix.ENOENT, meta.Command{Op: meta.OpReadDir, Ino: dir, Length: 1})
	f.m.Reap(ino, 77)
	f.m.Reap(dir, 77)
	f.fails(posix.ESTALE, meta.Command{Op: meta.OpGetAttr, Ino: ino})
	require.Equal(t, meta.Result{Number: 1}, f.do(meta.Command{Op: meta.OpStatFS}))
}

func TestUnknownOperations(t *testing.T) {
	f := newFS(t)
	require.Equal(t, posix.EINVAL, f.m.Apply(&meta.Command{Op: meta.OpLookup}, 1).Code)
	require.Equal(t, posix.EINVAL, f.m.Query(&meta.Command{Op: meta.OpMknod}).Code)
}
