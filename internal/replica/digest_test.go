package replica

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/internal/digest"
	"github.com/globalfs/globalfs/internal/kv"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/session"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// snapshotWith returns a snapshot of a store with one key. Its digest is false if changed is set: the store
// was changed behind its back.
func snapshotWith(t *testing.T, changed bool) []byte {
	t.Helper()
	keys := kv.NewMemory()
	require.NoError(t, keys.KeepDigest(digestKey, partOf))
	keys.Set([]byte("key"), []byte("value"))
	require.NoError(t, keys.Commit(true))
	kept := bytes.Clone(keys.Get(digestKey))
	if changed {
		keys.Set([]byte("key"), []byte("other"))
		require.NoError(t, keys.Commit(true))
		other := kv.NewMemory() // a store without a digest takes any entry
		for k, v := range keys.Scan(nil, nil) {
			other.Set(k, v)
		}
		other.Set(digestKey, kept)
		require.NoError(t, other.Commit(true))
		keys = other
	}
	var b bytes.Buffer
	require.NoError(t, meta.Snapshot(keys, &b))
	return b.Bytes()
}

// TestRestoreChecksTheDigest: a state with a false digest is not taken over. A replica that takes over a
// state has its digest, also if its own store had a false one.
func TestRestoreChecksTheDigest(t *testing.T) {
	f := newFixture(t)
	before := SumStore(f.keys)
	require.Equal(t, before, f.keys.Digest())
	err := f.restore(bytes.NewReader(snapshotWith(t, true)), nil)
	require.ErrorIs(t, err, ErrNotNewer)
	require.ErrorContains(t, err, "the store of the other replica is damaged")
	require.Equal(t, before, SumStore(f.keys), "nothing has changed")

	var h digest.Hasher
	f.keys.Correct(h.Entry([]byte("what is not"), []byte("there")))
	require.NoError(t, f.restore(bytes.NewReader(snapshotWith(t, false)), []byte("record")))
	require.Equal(t, "record", string(Adopted(f.keys)))
	require.Equal(t, h.Entry([]byte("key"), []byte("value")), f.keys.Digest())
	require.Equal(t, f.keys.Digest().Bytes(), f.keys.Get(digestKey))
}

// TestDigests: digests are returned once the store is verified. The verification then corrects earlier
// digests.
func TestDigests(t *testing.T) {
	f := newFixture(t)
	f.cfg.DigestPeriod = 1
	f.open(7)
	require.NotEmpty(t, f.digests.recent)
	require.Empty(t, f.Digests())
	first := f.digests.recent[0]
	require.NotZero(t, first.Count)
	var h digest.Hasher
	claimed := f.keys.Digest()
	f.VerifyDigest(claimed.Add(h.Entry([]byte("a"), nil)), claimed)
	require.Equal(t, first.Sum.Add(h.Entry([]byte("a"), nil)), f.Digests()[0].Sum)
	require.Equal(t, claimed.Add(h.Entry([]byte("a"), nil)), f.keys.Digest())
	for f.cross.Count() < 2*digestEvery {
		f.one(ask.Request{Kind: ask.RenewSession, Session: 7})
	}
	var counts []uint64
	for _, d := range f.Digests() {
		counts = append(counts, d.Count)
	}
	require.Equal(t, []uint64{1, digestEvery, 2 * digestEvery}, counts, "the time of this order stands still")
	for n := range uint64(3 * keptDigests) {
		f.takeDigest(multicast.MessageID{Seq: n})
	}
	require.Len(t, f.Digests(), keptDigests)
	require.EqualValues(t, 3*keptDigests-1, f.Digests()[keptDigests-1].Entry.Seq)
}

// Versions of the program may encode the answer to the same update differently: their replicas have equal
// digests.
func TestAnswersAreNotDigested(t *testing.T) {
	one, two := kv.NewMemory(), kv.NewMemory()
	for keys, answer := range map[*kv.Store]string{one: "an answer", two: "another one"} {
		require.NoError(t, keys.KeepDigest(digestKey, partOf))
		s, err := session.Load(keys, 0, 0)
		require.NoError(t, err)
		require.Equal(t, ask.Answered, s.Open(7, 0, nil, 0))
		s.Record(session.Update{Session: 7, Seq: 1}, []byte(answer))
		require.NoError(t, keys.Commit(true))
		require.Equal(t, SumStore(keys), keys.Digest())
	}
	require.Equal(t, one.Digest(), two.Digest())
	s, err := session.Load(one, 0, 0)
	require.NoError(t, err)
	s.Record(session.Update{Session: 7, Seq: 2}, nil)
	require.NotEqual(t, one.Digest(), two.Digest(), "which updates have answers does count")
}
