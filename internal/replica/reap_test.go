package replica

import (
	"fmt"
	"iter"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/internal/kv"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/session"
)

// dueByScan is the definition of due: it looks at all orphans. Replicas of the versions before reaper use it.
func dueByScan(m *meta.Machine, s *session.Sessions, seen uint64, most int) (due []posix.Ino) {
	for _, o := range m.Orphans(0, 1<<20) {
		if o.Counter <= seen && !s.IsHeld(o.Ino) && len(due) < most {
			due = append(due, o.Ino)
		}
	}
	return due
}

// A reaper finds the same orphans as a look at all of them, whatever sessions hold and have seen, also after
// a restart.
func TestReaperFindsWhatAScanFinds(t *testing.T) {
	for seed := range uint64(30) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 0))
			keys := kv.NewMemory()
			m, err := meta.New(keys, meta.Config{})
			require.NoError(t, err)
			s, err := session.Load(keys, 0, 0)
			require.NoError(t, err)
			var x reaper
			var files []posix.Ino
			counter, found := uint64(0), 0
			apply := func(c meta.Command) meta.Result {
				counter++
				r := m.Apply(&c, counter)
				require.Equal(t, posix.OK, r.Code)
				return r
			}
			remove := func() {
				name := fmt.Sprint(counter)
				c := mknod(name)
				files = append(files, apply(c).Attr.Ino)
				apply(meta.Command{Op: meta.OpUnlink, Ino: posix.Root, Name: name})
			}
			for range 300 {
				id := 1 + random.Uint64N(3)
				switch random.IntN(12) {
				case 0:
					s.Open(id, random.Uint64N(counter+1), nil, 0)
				case 1:
					s.End(id, 1)
					s.Open(id+3*counter, counter, nil, 0) // under another number, so that it opens
				case 2, 3, 4:
					var held []posix.Ino
					for range min(len(files), random.IntN(5)) {
						held = append(held, files[random.IntN(len(files))])
					}
					if s.Has(id, nil) {
						s.Renew(id, session.Renewal{Seen: random.Uint64N(counter + 1), Held: held}, 0)
					}
				case 5:
					if random.IntN(20) == 0 {
						x = reaper{} // a restart
					}
				default:
					remove()
					if random.IntN(3) == 0 {
						x.learn(m)
					}
					continue
				}
				most, seen := 1+random.IntN(4), s.Seen(counter)
				want := dueByScan(m, s, seen, most)
				due := x.due(m, s, seen, most)
				require.Equal(t, want, due)
				for _, ino := range due {
					m.Reap(ino, 1)
				}
				found += len(due)
			}
			require.NotZero(t, found)
		})
	}
}

// countingKeys counts the pairs that scans read.
type countingKeys struct {
	*kv.Store
	read int
}

func (k *countingKeys) Scan(from, to []byte) iter.Seq2[[]byte, []byte] {
	return func(yield func(key, value []byte) bool) {
		for key, value := range k.Store.Scan(from, to) {
			if k.read++; !yield(key, value) {
				return
			}
		}
	}
}

// A client that holds many removed files open does not make the renewals of other sessions costly: before
// reaper, each renewal read all of these orphans, at all replicas.
func TestReapCostsNoLookAtHeldOrphans(t *testing.T) {
	const files = 3 * maxReap
	keys := &countingKeys{Store: kv.NewMemory()}
	machine, err := meta.New(keys, meta.Config{})
	require.NoError(t, err)
	f := &fixture{t: t, core: &orderer{}, between: &orderer{}, keys: keys.Store}
	f.Replica, err = New(Config{Self: 1, Groups: allGroups, Incarnation: 1, MaxPending: 3}, f.core, f.between, keys, machine)
	require.NoError(t, err)
	f.open(5)
	f.open(6)
	var held []posix.Ino
	for i := range uint64(files) {
		_, m := f.do(5, 2*i+1, mknod("f"))
		held = append(held, m.Attr.Ino)
		f.do(5, 2*i+2, meta.Command{Op: meta.OpUnlink, Ino: posix.Root, Name: "f"})
	}
	seen := ask.Seen{Count: f.count()}
	renew := func(session uint64, held []posix.Ino) {
		require.Equal(t, ask.Answered, f.one(ask.Request{Kind: ask.RenewSession, Session: session, Claim: seen, Held: held}).Status)
	}
	renew(5, held)
	renew(6, nil)
	require.Len(t, machine.Orphans(0, files+1), files)
	keys.read = 0
	renew(6, nil)
	require.Less(t, keys.read, 10)
	renew(5, held[:1])
	require.Less(t, keys.read, 10)
	for f.Wake() != 0 && f.progress.reapAgain {
		f.step()
	}
	orphans := machine.Orphans(0, files)
	require.Len(t, orphans, 1)
	require.Equal(t, held[0], orphans[0].Ino)
}

// A bound client that never acknowledges a removal keeps the removed inode for one to two leases, and not for
// ever. A client of the cluster itself keeps it for ever.
func TestBoundClientKeepsNoRemovedInodes(t *testing.T) {
	for _, from := range []*ask.Client{someClient("hostile", 1000), nil} {
		f := newFixture(t)
		hostile := func(kind ask.Kind) {
			require.Equal(t, ask.Answered, f.as(from, ask.Request{Kind: kind, Session: 7}).Status)
		}
		hostile(ask.OpenSession)
		f.open(5)
		f.do(5, 1, mknod("f"))
		f.do(5, 2, meta.Command{Op: meta.OpUnlink, Ino: posix.Root, Name: "f"})
		removed, reapedAfter := f.mono, time.Duration(0)
		for range 10 * 5 {
			require.Equal(t, ask.Answered, f.one(ask.Request{Kind: ask.RenewSession, Session: 5, Claim: ask.Seen{Count: f.count()}}).Status)
			hostile(ask.RenewSession)
			if reapedAfter == 0 && len(f.machine.Orphans(0, 1)) == 0 {
				reapedAfter = f.mono - removed
			}
			f.mono += session.DefaultLease / 5
		}
		if from == nil {
			require.Zero(t, reapedAfter)
			continue
		}
		require.GreaterOrEqual(t, reapedAfter, session.DefaultLease)
		require.LessOrEqual(t, reapedAfter, 3*session.DefaultLease)
	}
}

// A client whose renewal was refused for the quota of inodes renews without a vector, which only extends the
// lease: the session keeps the inodes that it holds, although the floor raises the vector.
func TestRenewalWithoutVectorKeepsHeld(t *testing.T) {
	f := newFixture(t)
	bound := someClient("laptop", 1000)
	require.Equal(t, ask.Answered, f.as(bound, ask.Request{Kind: ask.OpenSession, Session: 7}).Status)
	f.open(5)
	_, m := f.do(5, 1, mknod("f"))
	require.Equal(t, ask.Answered, f.as(bound, ask.Request{Kind: ask.RenewSession, Session: 7, Claim: ask.Seen{Count: f.count()}, Held: []posix.Ino{m.Attr.Ino}}).Status)
	f.do(5, 2, meta.Command{Op: meta.OpUnlink, Ino: posix.Root, Name: "f"})
	for i := range 20 {
		require.Equal(t, ask.Answered, f.one(ask.Request{Kind: ask.RenewSession, Session: 5, Claim: ask.Seen{Count: f.count()}}).Status)
		require.Equal(t, ask.Answered, f.as(bound, ask.Request{Kind: ask.RenewSession, Session: 7}).Status)
		require.Len(t, f.machine.Orphans(0, 1), 1, "held orphan reaped after %d fifths of a lease", i)
		f.mono += session.DefaultLease / 5
	}
}
