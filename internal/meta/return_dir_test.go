package meta_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
)

// A client that asks for the directory gets it with the answer to a change; the answer to another one, which
// may not know of it, is as it was.
func TestReturnDir(t *testing.T) {
	f := newFS(t)
	dir := func() posix.Attr { return f.do(meta.Command{Op: meta.OpGetAttr, Ino: posix.Root}).Attr }
	for _, c := range []meta.Command{
		{Op: meta.OpMknod, Ino: posix.Root, Name: "d", Mode: posix.TypeDir | 0o755},
		{Op: meta.OpMknod, Ino: posix.Root, Name: "f", Mode: 0o644},
		{Op: meta.OpUnlink, Ino: posix.Root, Name: "f"},
		{Op: meta.OpRmdir, Ino: posix.Root, Name: "d"},
	} {
		c.Flags = meta.ReturnDir
		r := f.do(c)
		require.Equal(t, posix.OK, r.Code)
		require.Equal(t, dir(), r.Dir)
		decoded, err := meta.DecodeResult(r.Append(nil))
		require.NoError(t, err)
		require.Equal(t, r.Dir, decoded.Dir)
	}
	r := f.do(meta.Command{Op: meta.OpMknod, Ino: posix.Root, Name: "g", Mode: 0o644})
	require.Zero(t, r.Dir)
	short := r.Append(nil)
	r.Dir = dir()
	require.Equal(t, short, r.Append(nil)[:len(short)], "an optional tail")
	require.Greater(t, len(r.Append(nil)), len(short))
	f.fails(posix.ENOENT, meta.Command{Op: meta.OpUnlink, Ino: posix.Root, Name: "none", Flags: meta.ReturnDir})
}
