package replica

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/internal/posix"
)

// proving returns two partitions that verify the proofs of their clients.
func proving(t *testing.T) *several {
	s := newSeveral(t)
	s.keys = ask.Keys{[]byte("a key of both partitions")}
	for i := range s.nodes {
		s.restart(i)
	}
	return s
}

// given returns the proof in a reply.
func given(p ask.Reply) ask.Proofs { return ask.Proofs{{Vector: p.Vector, Tag: p.Tag}} }

// update creates a file in a partition.
func (s *several) update(i int, seq uint64, name string, proofs ask.Proofs) ask.Reply {
	c := mknod(name)
	c.Ino = posix.MakeIno(uint16(i), 1)
	return s.ask(i, ask.Request{Kind: ask.Update, Session: 7, Seq: seq, Proofs: proofs, Command: c.Append(nil)})
}

// A partition takes from a client only entries that a server has proven: a forged vector is neither stored
// nor passed on, and delays no request of other clients.
func TestForgedVectors(t *testing.T) {
	s := proving(t)
	true0 := s.update(0, 1, "a", nil)
	require.Equal(t, posix.OK, result(t, true0).Code)
	forged := ask.Vector{{Count: 1 << 62}, {}}
	longer := true0.Vector.Clone()
	longer[0].Count++
	for name, proofs := range map[string]ask.Proofs{
		"no tag":             {{Vector: forged}},
		"another one's tag":  {{Vector: forged, Tag: true0.Tag}},
		"one more":           {{Vector: longer, Tag: true0.Tag}},
		"a true one beside":  {{Vector: true0.Vector, Tag: true0.Tag}, {Vector: forged, Tag: true0.Tag}},
		"of another cluster": {{Vector: forged, Tag: ask.Keys{[]byte("another key")}.Seal(forged.Append(nil))}},
	} {
		for i := range s.nodes {
			before := s.nodes[i].Vector().Clone()
			require.Equal(t, ask.Unproven, s.update(i, 9, "b", proofs).Status, name)
			q := lookup(posix.MakeIno(uint16(i), 1), "a")
			q.Proofs = proofs
			require.Equal(t, ask.Unproven, s.ask(i, q).Status, name)
			require.Equal(t, before, s.nodes[i].Vector(), "%s: nothing is ordered, nothing is stored", name)
		}
	}
	q := lookup(posix.MakeIno(1, 1), "c")
	q.Proofs = given(true0)
	p := s.ask(1, q)
	require.True(t, p.Vector.Covers(true0.Vector), "also if nothing was stored")
	p = s.update(1, 1, "c", given(true0))
	require.Equal(t, posix.OK, result(t, p).Code)
	require.Equal(t, true0.Vector.Of(0).Count, s.nodes[1].Vector().Of(0).Count, "a true vector is stored")
	require.True(t, p.Vector.Covers(true0.Vector), "one proof is enough after it")
	require.True(t, s.keys.Verify(p.Vector.Append(nil), p.Tag))
}

// A client may claim to have seen entries of the asked partition without a proof. The partition itself can
// check the claim, and does not pass it on.
func TestClaims(t *testing.T) {
	s := proving(t)
	seen := s.update(0, 1, "a", nil).Vector.Of(0)
	q := lookup(posix.Root, "a")
	q.Claim = seen
	p := s.ask(0, q)
	require.Equal(t, posix.OK, result(t, p).Code)
	require.True(t, p.Vector.Of(0).Covers(seen), "the reply proves it")

	before := s.nodes[0].Vector().Of(0).History
	q.Claim = ask.Seen{Count: 1 << 62}
	token := s.send(0, q)
	s.settle()
	require.NotContains(t, s.got, token, "it may be true, and on its way to this replica")
	s.sleep(time.Second)
	require.Equal(t, ask.Unseen, s.got[token].Status)
	c := mknod("b")
	r := ask.Request{Kind: ask.Update, Session: 7, Seq: 2, Done: 1, Claim: ask.Seen{Count: 1 << 62}, Command: c.Append(nil)}
	require.Equal(t, ask.Unseen, s.ask(0, r).Status)
	require.Equal(t, before, s.nodes[0].Vector().Of(0).History, "a claim proves nothing")
	require.Equal(t, ask.Unseen, s.ask(0, ask.Request{Kind: ask.RenewSession, Session: 7, Claim: ask.Seen{Count: 1 << 62}}).Status)
	require.Zero(t, s.nodes[1].Vector().Of(0).Count, "nobody else was told")
}

// forget makes partition 0 lose the entries since a copy of its store, and returns the last vector that was
// given before.
func (s *several) forget(t *testing.T) ask.Proofs {
	t.Helper()
	copied := committed(t, s.nodes[0].keys)
	last := s.nodes[0].core.last
	var lost ask.Reply
	for i := range uint64(20) {
		lost = s.update(0, 10+i, string(rune('a'+i)), nil)
		require.Equal(t, posix.OK, result(t, lost).Code)
	}
	require.Equal(t, posix.OK, result(t, s.update(1, 1, "c", given(lost))).Code)
	s.nodes[0].keys, s.nodes[0].core = copied, &orderer{}
	s.nodes[0].core.last = last
	s.restart(0)
	return given(lost)
}

// A partition that was put back to an earlier state, with a vector of its future stored at another partition,
// begins a new history at the first proof of its loss. Clients and partitions then go on by themselves.
func TestAPartitionThatHasLostEntries(t *testing.T) {
	ways := map[string]func(s *several, lost ask.Proofs) ask.Reply{
		"a query": func(s *several, lost ask.Proofs) ask.Reply {
			q := lookup(posix.Root, "c")
			q.Proofs = lost
			token := s.send(0, q)
			s.sleep(time.Second)
			return s.got[token]
		},
		"an update": func(s *several, lost ask.Proofs) ask.Reply { return s.update(0, 40, "d", lost) },
		"a rename": func(s *several, lost ask.Proofs) ask.Reply {
			q := rename("d", posix.MakeIno(0, 99), 41)
			q.Proofs = lost
			return s.ask(0, q)
		},
	}
	for name, way := range ways {
		t.Run(name, func(t *testing.T) {
			s := proving(t)
			lost := s.forget(t)
			p := way(s, lost)
			require.Equal(t, ask.Unseen, p.Status)
			own := s.nodes[0].Vector().Of(0)
			require.EqualValues(t, 1, own.Histories())
			require.Less(t, own.Count, lost.Merged().Of(0).Count)

			proofs := lost.Add(given(s.ask(0, lookup(posix.Root, "c")))[0])
			q := lookup(posix.Root, "c")
			q.Proofs = proofs
			q.Claim = lost.Merged().Of(0) // void, as there is a newer history
			p = s.ask(0, q)
			require.Equal(t, ask.Answered, p.Status, "it goes on at once")
			require.Equal(t, own.History, s.nodes[0].Vector().Of(0).History, "there is one new history")
			q = lookup(posix.Root, "c")
			q.Proofs = lost
			require.Equal(t, ask.Unseen, s.ask(0, q).Status, "who shows the old history is told at once")

			require.Equal(t, posix.OK, result(t, s.update(1, 2, "e", given(p))).Code)
			require.Equal(t, own.History, s.nodes[1].Vector().Of(0).History, "others forget the old counts")
			s.restart(0)
			require.Equal(t, own.History, s.nodes[0].Vector().Of(0).History)
		})
	}
}

// An update whose client claims a place that does not exist, and that meets a hold, is tried again once. It
// does not keep the replica busy.
func TestAFalseClaimDoesNotKeepAReplicaBusy(t *testing.T) {
	s := proving(t)
	m := result(t, s.update(0, 1, "a", nil))
	s.loses = func(from, _ int) bool { return from == 1 } // no vote arrives
	s.send(0, rename("a", m.Attr.Ino, 2))
	s.settle()
	c := mknod("a") // it meets the hold of the name
	q := ask.Request{Kind: ask.Update, Session: 7, Seq: 3, Done: 1, Claim: ask.Seen{Count: 1 << 40, OpenUpTo: 1 << 40}, Command: c.Append(nil)}
	token := s.send(0, q)
	s.sleep(2 * ask.DoubtAfter)
	require.NotContains(t, s.got, token)
	require.Len(t, s.nodes[0].updates.blocked, 1)
	require.False(t, s.nodes[0].updates.resume, "nothing has changed")
}
