package delegation

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/varint"
)

// get asks for an existing directory, and lets the partition number the grant; 0: it does not.
func (w *world) get(dir posix.Ino, request, grant uint64) {
	w.t.Helper()
	require.True(w.t, w.Answer(w.m, holder, &Ask{Dir: dir, Log: w.log, Number: request, Grant: grant}, 0))
}

// revoke executes a revocation as a replica does.
func (w *world) revoke(v Revocation) {
	w.t.Helper()
	decoded, err := DecodeRevocation(v.Append(nil))
	require.NoError(w.t, err)
	require.Equal(w.t, v, decoded)
	w.EndRecalled(&decoded)
}

// A revocation that is ordered late does not end a later grant of the session, whether that is recalled or
// not.
func TestLateRevocation(t *testing.T) {
	w := newWorld(t)
	dir, _, _ := w.existing("d")
	touched := []meta.Object{{Ino: dir, IsDir: true}}
	w.get(dir, 1, 10)
	require.Empty(t, w.Revocations())
	require.True(t, w.Recall(touched, 0, 0))
	late := Revocation{Session: holder, Dir: dir, Grant: 10}
	w.alsoAfterReload(func() { require.Equal(t, []Revocation{late}, w.Revocations()) })
	require.Equal(t, Done{Next: 2}, w.run(1, Op{Return: dir}))
	w.revoke(late)
	w.get(dir, 2, 20)
	newer := Revocation{Session: holder, Dir: dir, Grant: 20}
	w.alsoAfterReload(func() {
		w.revoke(late)
		w.revoke(newer)
		require.Equal(t, holder, w.Holder(dir), "nobody has recalled it")
	})
	require.True(t, w.Recall(touched, 0, 5*second))
	w.alsoAfterReload(func() {
		w.revoke(late)
		require.Equal(t, []Revocation{newer}, w.Revocations(), "its holder has time to return it")
	})
	w.revoke(Revocation{Session: holder + 1, Dir: dir, Grant: 20})
	require.Equal(t, holder, w.Holder(dir))
	w.revoke(newer)
	w.alsoAfterReload(func() { require.Zero(t, w.Holder(dir)) })
}

// The grant with which a directory was made has no number. Its revocation is the one of older versions, and
// does not end a later grant with a number.
func TestRevocationWithoutNumber(t *testing.T) {
	w := newWorld(t)
	dir := w.mkdir("d")
	touched := []meta.Object{{Ino: dir, IsDir: true}}
	require.True(t, w.Recall(touched, 0, 0))
	require.Equal(t, []Revocation{{Session: holder, Dir: dir}}, w.Revocations())
	old := w.Revocations()[0]
	require.Equal(t, varint.AppendUint(varint.AppendUint(nil, holder), dir), old.Append(nil))
	require.Equal(t, Done{Next: 2}, w.run(1, Op{Return: dir}))
	w.get(dir, 1, 10)
	require.True(t, w.Recall(touched, 0, 5*second))
	w.revoke(old)
	require.Equal(t, holder, w.Holder(dir))
	w.Revoke(holder, dir)
	w.get(dir, 2, 0)
	w.revoke(old)
	require.Zero(t, w.Holder(dir), "the rule of older versions, whose grants have no numbers")
	for _, bad := range [][]byte{nil, {7}, {7, 9, 10, 11}} {
		_, err := DecodeRevocation(bad)
		require.ErrorIs(t, err, varint.ErrMalformed)
	}
}
