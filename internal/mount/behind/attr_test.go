package behind

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
)

// newFile makes a file of user 5 with content that is not ordered.
func newFile(t *testing.T, f *Files) posix.Attr {
	t.Helper()
	a := posix.Attr{Ino: 1, Mode: posix.TypeRegular | 0o600, Nlink: 1, UID: 5, GID: 6, Atime: 1000, Mtime: 1000, Ctime: 1000}
	f.Created(1, &a)
	write(t, f, Write{Ino: 1, Handle: 1, Cred: owner, Data: []byte("content")})
	return a
}

var owner = posix.Cred{UID: 5, GID: 6}

// Attributes of a new file are ordered with its content, and keep the values that the owner got.
func TestAttributesGoWithTheContent(t *testing.T) {
	var c cluster
	f := filesOf(t, &c, never, 64<<20)
	before := newFile(t, f)
	a, kept := f.SetAttr(1, owner, meta.SetMode, &posix.Attr{Mode: 0o755}, never)
	require.True(t, kept)
	require.EqualValues(t, posix.TypeRegular|0o755, a.Mode)
	require.EqualValues(t, 7, a.Size)
	require.GreaterOrEqual(t, a.Mtime, before.Mtime)
	require.Equal(t, a.Mtime, a.Ctime)
	b, kept := f.SetAttr(1, owner, meta.SetUID|meta.SetGID|meta.KillSetID|meta.SetAtime, &posix.Attr{UID: 5, GID: 6, Atime: 77}, never)
	require.True(t, kept)
	require.Equal(t, a.Mtime, b.Mtime, "it was told before")
	require.EqualValues(t, 77, b.Atime)
	require.Equal(t, a.Mode, b.Mode)
	require.Empty(t, c.batches)
	require.NoError(t, f.FlushHandle(t.Context(), 1, 1))
	require.Len(t, c.batches, 1)
	require.Equal(t, meta.SetMode|meta.SetMtime|meta.SetAtime, c.batches[0].Set)
	require.Equal(t, posix.Attr{Mode: 0o755, Atime: 77, Mtime: a.Mtime}, c.batches[0].Attr)
	_, kept = f.SetAttr(1, owner, meta.SetMode, &posix.Attr{Mode: 0o755}, never)
	require.False(t, kept, "all is ordered")
}

// A write after the attributes is ordered after them, and has its own time of modification.
func TestWritesAfterAttributesAreApart(t *testing.T) {
	var c cluster
	f := filesOf(t, &c, never, 64<<20)
	newFile(t, f)
	_, kept := f.SetAttr(1, owner, meta.SetMtime, &posix.Attr{Mtime: 3}, never)
	require.True(t, kept)
	write(t, f, Write{Ino: 1, Handle: 1, Cred: owner, Offset: 7, Data: []byte(", more")})
	_, kept = f.SetAttr(1, owner, meta.SetMtime, &posix.Attr{Mtime: 4}, never)
	require.False(t, kept)
	require.NoError(t, f.Flush(t.Context(), 1))
	require.Len(t, c.batches, 2)
	require.Equal(t, meta.SetMtime, c.batches[0].Set)
	require.Zero(t, c.batches[1].Set)
	require.Equal(t, "content, more", string(c.read(1)))
}

func TestAttributesThatAreNotKept(t *testing.T) {
	someone := posix.Cred{UID: 7}
	mode := func(m posix.Mode) *posix.Attr { return &posix.Attr{Mode: m} }
	for name, try := range map[string]func(f *Files) bool{
		"another user": func(f *Files) bool { _, kept := f.SetAttr(1, someone, meta.SetMode, mode(0), never); return kept },
		"a gift": func(f *Files) bool {
			_, kept := f.SetAttr(1, owner, meta.SetUID, &posix.Attr{UID: 7}, never)
			return kept
		},
		"another group": func(f *Files) bool {
			_, kept := f.SetAttr(1, owner, meta.SetGID, &posix.Attr{GID: 7}, never)
			return kept
		},
		"set-id bits": func(f *Files) bool {
			_, kept := f.SetAttr(1, owner, meta.SetMode, mode(posix.SetUID), never)
			return kept
		},
		"the size": func(f *Files) bool { _, kept := f.SetAttr(1, owner, meta.SetSize, mode(0), never); return kept },
		"nothing":  func(f *Files) bool { _, kept := f.SetAttr(1, owner, 0, mode(0), never); return kept },
		"too late": func(f *Files) bool { _, kept := f.SetAttr(1, owner, meta.SetMode, mode(0), 0); return kept },
		"another file": func(f *Files) bool {
			_, kept := f.SetAttr(2, owner, meta.SetMode, mode(0), never)
			return kept
		},
		"names changed": func(f *Files) bool {
			f.Named()
			_, kept := f.SetAttr(1, owner, meta.SetMode, mode(0), never)
			return kept
		},
		"something else is ordered": func(f *Files) bool {
			f.Ordering(1)
			_, kept := f.SetAttr(1, owner, meta.SetMode, mode(0), never)
			return kept
		},
		"an old file": func(f *Files) bool {
			write(t, f, Write{Ino: 3, Handle: 3, Cred: owner, Data: []byte("x")})
			_, kept := f.SetAttr(3, owner, meta.SetMode, mode(0), never)
			return kept
		},
	} {
		t.Run(name, func(t *testing.T) {
			var c cluster
			f := filesOf(t, &c, time.Hour, 64<<20)
			newFile(t, f)
			require.False(t, try(f))
		})
	}
}
