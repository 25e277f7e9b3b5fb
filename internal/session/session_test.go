package session

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/internal/kv"
	"github.com/globalfs/globalfs/internal/posix"
)

// client returns a client that may act for all users.
func client(name string) *ask.Client { return &ask.Client{Name: name, Authority: posix.Everybody()} }

var owner, other = client("owner"), client("other")

// world is the sessions of a store, which a test loads again.
type world struct {
	t    *testing.T
	keys *kv.Store
	*Sessions
}

func newWorld(t *testing.T) *world {
	w := &world{t: t, keys: kv.NewMemory()}
	w.reload()
	return w
}

func (w *world) reload() {
	w.t.Helper()
	var err error
	w.Sessions, err = Load(w.keys, time.Minute, 0)
	require.NoError(w.t, err)
}

// alsoAfterReload runs a check on the sessions, and on the sessions that the keys hold.
func (w *world) alsoAfterReload(check func()) {
	w.t.Helper()
	check()
	w.reload()
	check()
}

// keysFrom returns the keys with a first byte.
func (w *world) keysFrom(prefix byte) (found []string) {
	for k := range w.keys.Scan([]byte{prefix}, []byte{prefix + 1}) {
		found = append(found, string(k))
	}
	return found
}

var (
	execute = Verdict{Execute: true}
	unknown = Verdict{Outcome: ask.UnknownSession}
)

func answered(text string) Verdict { return Verdict{Outcome: ask.Answered, Answer: []byte(text)} }

// S1: an update is executed once, in any order of its copies.
func TestAnUpdateIsAdmittedOnce(t *testing.T) {
	w := newWorld(t)
	first, second, third := Update{7, 1, 0}, Update{7, 2, 0}, Update{7, 3, 1}
	require.Equal(t, unknown, w.Admit(first, owner), "before the session is opened")
	require.False(t, w.IsOpen(first))
	require.False(t, w.IsSettled(first), "its opening may be on the way")
	require.Equal(t, ask.Answered, w.Open(7, 0, owner, 0))
	w.alsoAfterReload(func() {
		require.Equal(t, execute, w.Admit(first, owner))
		require.Equal(t, execute, w.Admit(first, nil), "the cluster's own")
		require.Equal(t, unknown, w.Admit(first, other))
		require.True(t, w.IsOpen(first))
		require.False(t, w.IsSettled(first))
	})
	w.Record(second, []byte("two"))
	w.Record(first, []byte("one"))
	w.alsoAfterReload(func() {
		require.Equal(t, answered("one"), w.Admit(first, owner))
		require.Equal(t, answered("two"), w.Admit(second, nil))
		require.Equal(t, unknown, w.Admit(second, other), "an answer is the owner's")
		require.Equal(t, execute, w.Admit(third, owner))
		require.False(t, w.IsOpen(first))
		require.True(t, w.IsSettled(first))
	})
	// The client has the first answer. S2: this is kept with the newest answer.
	w.Record(third, []byte("three"))
	w.alsoAfterReload(func() {
		v := w.Admit(first, owner)
		require.False(t, v.Execute)
		require.Equal(t, ask.Refused, v.Outcome)
		require.NotEmpty(t, v.Answer)
		require.True(t, w.IsSettled(first))
		require.False(t, w.IsOpen(first))
		require.Equal(t, answered("two"), w.Admit(second, owner))
		require.Equal(t, answered("three"), w.Admit(third, owner))
	})
	require.Len(t, w.keysFrom(answerPrefix), 2, "an answer that the client has is forgotten")
}

// S2: the number that the client has reported never decreases, in any order of the updates, and over
// restarts.
func TestTheReportedNumberNeverDecreases(t *testing.T) {
	w := newWorld(t)
	require.Equal(t, ask.Answered, w.Open(7, 0, owner, 0))
	w.Record(Update{7, 8, 3}, []byte("8"))
	w.Record(Update{7, 7, 6}, []byte("7"))
	w.Record(Update{7, 9, 2}, []byte("9")) // it was sent first, and ordered last
	w.alsoAfterReload(func() {
		for seq := uint64(1); seq <= 6; seq++ {
			require.Equal(t, ask.Refused, w.Admit(Update{7, seq, 0}, owner).Outcome, "update %d", seq)
		}
		require.Equal(t, answered("7"), w.Admit(Update{7, 7, 0}, owner))
		require.Equal(t, execute, w.Admit(Update{7, 10, 0}, owner))
	})
	w.Record(Update{7, 10, 9}, []byte("10"))
	w.alsoAfterReload(func() {
		require.Equal(t, ask.Refused, w.Admit(Update{7, 9, 0}, owner).Outcome)
		require.Equal(t, answered("10"), w.Admit(Update{7, 10, 0}, owner))
	})
	require.Len(t, w.keysFrom(answerPrefix), 1)
}

// An empty answer is an answer.
func TestAnEmptyAnswerIsKept(t *testing.T) {
	w := newWorld(t)
	require.Equal(t, ask.Answered, w.Open(7, 0, owner, 0))
	w.Record(Update{7, 1, 0}, nil)
	w.alsoAfterReload(func() {
		v := w.Admit(Update{7, 1, 0}, owner)
		require.False(t, v.Execute)
		require.Equal(t, ask.Answered, v.Outcome)
		require.Empty(t, v.Answer)
	})
}

// S3: a session that has ended is not opened again, and nothing of it is kept but its number.
func TestAnEndedSessionStaysEnded(t *testing.T) {
	w := newWorld(t)
	require.Equal(t, ask.Answered, w.Open(7, 0, owner, 0))
	require.Equal(t, ask.Answered, w.Open(8, 0, owner, 0))
	w.Record(Update{7, 1, 0}, []byte("one"))
	w.Record(Update{8, 1, 0}, []byte("one"))
	w.End(7, 100)
	w.End(7, 200)
	w.End(9, 100) // never opened: it may still come
	w.Record(Update{7, 2, 0}, []byte("late"))
	w.alsoAfterReload(func() {
		require.Equal(t, ask.UnknownSession, w.Open(7, 0, owner, 0))
		require.Equal(t, unknown, w.Admit(Update{7, 1, 0}, owner))
		require.False(t, w.IsOpen(Update{7, 2, 0}))
		require.True(t, w.IsSettled(Update{7, 2, 0}), "no copy of it is executed any more")
		require.False(t, w.IsSettled(Update{9, 1, 0}))
		require.False(t, w.Has(7, nil))
		require.True(t, w.Has(8, owner))
		require.Equal(t, 1, w.Len())
		require.Equal(t, answered("one"), w.Admit(Update{8, 1, 0}, owner))
		require.Len(t, w.keysFrom(sessionPrefix), 1)
		require.Len(t, w.keysFrom(answerPrefix), 1)
		require.Len(t, w.keysFrom(endedPrefix), 1)
	})
	require.Equal(t, ask.Answered, w.Open(9, 0, owner, 0))
}

// The end of a session is remembered for a week by the order's clock, and forgotten when a later session
// ends.
func TestEndsAreForgottenAfterAWeek(t *testing.T) {
	w := newWorld(t)
	const start = posix.Time(1e18)
	for id := uint64(1); id <= 4; id++ {
		require.Equal(t, ask.Answered, w.Open(id, 0, owner, 0))
	}
	w.End(1, start)
	w.End(2, start+posix.Time(time.Hour))
	w.End(3, start+posix.Time(rememberedEnd))
	require.Equal(t, ask.UnknownSession, w.Open(1, 0, owner, 0), "a week to the nanosecond")
	w.End(4, start+posix.Time(rememberedEnd)+1)
	w.alsoAfterReload(func() {
		require.Len(t, w.keysFrom(endedPrefix), 3)
		require.Equal(t, ask.UnknownSession, w.Open(2, 0, owner, 0))
		require.False(t, w.IsSettled(Update{1, 1, 0}))
	})
	require.Equal(t, ask.Answered, w.Open(1, 0, owner, 0))
}

func TestASessionBelongsToItsName(t *testing.T) {
	w := newWorld(t)
	require.Equal(t, ask.Answered, w.Open(7, 0, owner, 0))
	require.Equal(t, ask.Answered, w.Open(8, 0, nil, 0))
	w.alsoAfterReload(func() {
		require.Equal(t, ask.Answered, w.Open(7, 0, owner, 0), "opening it again confirms it")
		require.Equal(t, ask.Answered, w.Open(7, 0, nil, 0))
		require.Equal(t, ask.UnknownSession, w.Open(7, 0, other, 0))
		require.True(t, w.Has(7, owner) && w.Has(7, nil) && w.Has(8, nil))
		require.False(t, w.Has(7, other) || w.Has(8, owner) || w.Has(9, nil))
	})
}

func TestMalformedKeysAreReported(t *testing.T) {
	for name, c := range map[string]struct{ key, value []byte }{
		"a short session":         {sessionKey(7)[:8], []byte{0, 0, 0, 0}},
		"a session that is cut":   {sessionKey(7), []byte{0, 0, 0, 3, 1}},
		"a session with a rest":   {sessionKey(7), []byte{0, 0, 0, 0, 1, 'a', 'b'}},
		"a short answer":          {answerKey(7, 1)[:16], []byte{0, 0}},
		"an answer that is cut":   {answerKey(7, 1), []byte{0, 2, 1}},
		"an answer of no session": {answerKey(8, 1), []byte{0, 0}},
		"a short end":             {endedKey(1, 7)[:16], nil},
	} {
		keys := kv.NewMemory()
		s, err := Load(keys, 0, 0)
		require.NoError(t, err)
		s.Open(7, 0, owner, 0)
		keys.Set(c.key, c.value)
		_, err = Load(keys, 0, 0)
		require.Error(t, err, name)
	}
}
