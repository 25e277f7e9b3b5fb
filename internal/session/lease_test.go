package session

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/internal/kv"
	"github.com/globalfs/globalfs/internal/posix"
)

// A replica reports a session that was silent for a lease by its own clock, once a lease.
func TestSilentSessions(t *testing.T) {
	w := newWorld(t)
	require.Zero(t, w.Wake(), "no session, no look at leases")
	require.Empty(t, w.Silent(time.Hour))
	for id, at := range map[uint64]time.Duration{9: 10 * time.Second, 3: 20 * time.Second} {
		require.Equal(t, ask.Answered, w.Open(id, 0, owner, at))
	}
	require.Equal(t, 70*time.Second, w.Wake())
	require.Empty(t, w.Silent(70*time.Second-1))
	require.Equal(t, []Expiry{{Session: 9}}, w.Silent(70*time.Second))
	require.Equal(t, 80*time.Second, w.Wake())
	require.Empty(t, w.Silent(75*time.Second))
	require.Equal(t, []Expiry{{Session: 3}, {Session: 9}}, w.Silent(140*time.Second), "in the order of their numbers, again")
	require.Equal(t, 200*time.Second, w.Wake())
	w.End(3, 1)
	w.End(9, 1)
	require.Empty(t, w.Silent(200*time.Second))
	require.Zero(t, w.Wake())
}

// Only a renewal extends a lease. An expiry that was proposed before it has no effect.
func TestARenewalOvertakesAnExpiry(t *testing.T) {
	w := newWorld(t)
	require.Equal(t, ask.Answered, w.Open(7, 0, owner, 0))
	w.Renew(7, Renewal{}, 30*time.Second)
	require.Empty(t, w.Silent(90*time.Second-1))
	require.Equal(t, ask.Answered, w.Open(7, 0, owner, 60*time.Second), "opening again does not renew")
	w.Record(Update{7, 1, 0}, []byte("one"))
	e := w.Silent(90 * time.Second)
	require.Equal(t, []Expiry{{Session: 7, Renewals: 1}}, e)
	require.True(t, w.IsSilent(e[0]))
	w.Renew(7, Renewal{}, 91*time.Second)
	w.alsoAfterReload(func() {
		require.False(t, w.IsSilent(e[0]), "it was renewed meanwhile")
		require.True(t, w.IsSilent(Expiry{Session: 7, Renewals: 2}))
		require.False(t, w.IsSilent(Expiry{Session: 8}))
	})
	w.End(7, 1)
	require.False(t, w.IsSilent(Expiry{Session: 7, Renewals: 2}))
}

// The replicas of a group wait differently long, so that mostly one of them proposes the end of a session.
func TestLeasesAreStaggered(t *testing.T) {
	keys := kv.NewMemory()
	s, err := Load(keys, time.Minute, 0)
	require.NoError(t, err)
	s.Open(7, 0, owner, 0)
	for index, want := range []time.Duration{60 * time.Second, 75 * time.Second, 90 * time.Second} {
		s, err = Load(keys, time.Minute, index)
		require.NoError(t, err)
		require.Equal(t, want, s.Wake(), "a lease begins anew when a replica starts")
		require.Empty(t, s.Silent(want-1))
		require.Equal(t, []Expiry{{Session: 7}}, s.Silent(want))
		require.Equal(t, want+time.Minute, s.Wake(), "again one lease later")
	}
	s, err = Load(keys, 0, 0)
	require.NoError(t, err)
	require.Equal(t, DefaultLease, s.Wake())
}

// An inode is unused when every session has seen the order up to a place, and no session holds it.
func TestHolders(t *testing.T) {
	w := newWorld(t)
	unused := func(wantSeen uint64, wantHeld ...posix.Ino) {
		t.Helper()
		w.alsoAfterReload(func() {
			require.Equal(t, wantSeen, w.Seen(50))
			require.Len(t, w.holders.count, len(wantHeld))
			for _, ino := range wantHeld {
				require.True(t, w.IsHeld(ino), "inode %d", ino)
			}
		})
	}
	unused(50)
	require.Equal(t, ask.Answered, w.Open(1, 10, owner, 0))
	require.Equal(t, ask.Answered, w.Open(2, 20, owner, 0))
	unused(10)
	w.Renew(1, Renewal{Seen: 30, Held: []posix.Ino{5, 6}}, 0)
	unused(20, 5, 6)
	w.Renew(2, Renewal{Seen: 40, Held: []posix.Ino{6, 7}}, 0)
	unused(30, 5, 6, 7)
	w.Renew(1, Renewal{Seen: 25, Held: []posix.Ino{6}}, 0) // a copy from before 5 was held
	unused(30, 5, 6, 7)
	w.Renew(1, Renewal{Seen: 30, Held: []posix.Ino{6}}, 0)
	unused(30, 6, 7)
	w.Renew(1, Renewal{Seen: 90}, 0)
	unused(40, 6, 7)
	w.TakeReleased()
	w.Renew(2, Renewal{Seen: 40, Held: []posix.Ino{7, 7}}, 0)
	require.Equal(t, []posix.Ino{6}, w.TakeReleased())
	unused(40, 7)
	w.Renew(2, Renewal{Seen: 40, Held: []posix.Ino{7}}, 0)
	unused(40, 7)
	w.End(2, 1)
	require.Equal(t, []posix.Ino{7}, w.TakeReleased())
	require.Empty(t, w.TakeReleased())
	unused(50)
}

// A renewal does not keep the caller's list.
func TestRenewCopies(t *testing.T) {
	w := newWorld(t)
	require.Equal(t, ask.Answered, w.Open(1, 0, owner, 0))
	held := []posix.Ino{5}
	w.Renew(1, Renewal{Held: held}, 0)
	held[0] = 6
	require.Equal(t, []posix.Ino{5}, w.open[1].held)
}

// G3: the horizon of a session only grows.
func TestHorizon(t *testing.T) {
	w := newWorld(t)
	_, open := w.Horizon(1)
	require.False(t, open)
	require.Equal(t, ask.Answered, w.Open(1, 0, owner, 0))
	for _, c := range []struct{ given, want uint64 }{{0, 0}, {9, 9}, {4, 9}, {10, 10}} {
		w.Renew(1, Renewal{Horizon: c.given}, 0)
		w.alsoAfterReload(func() {
			counter, open := w.Horizon(1)
			require.True(t, open)
			require.Equal(t, c.want, counter)
		})
	}
	w.End(1, 1)
	_, open = w.Horizon(1)
	require.False(t, open)
}
