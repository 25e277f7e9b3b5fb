package replica

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
)

// prepared is the number of the first update after ready.
const prepared = 4

// ready gives the root of partition 0 a rule that places all children in partition 1, and lets both
// partitions receive messages of each other.
func ready(t *testing.T) *several {
	s := newSeveral(t)
	place := meta.Command{Op: meta.OpPlace, Ino: posix.Root, Data: (&meta.Rule{Spread: []uint16{1}}).Append(nil)}
	require.Equal(t, posix.OK, result(t, s.ask(0, ask.Request{Kind: ask.Update, Session: 7, Seq: 1, Command: place.Append(nil)})).Code)
	s.ask(0, rename("none", 5, prepared-1))
	s.sleep(time.Second)
	return s
}

// makeThere makes name in the root of partition 0, with its inode in partition 1.
func makeThere(name string, seq uint64) ask.Request {
	c := meta.Command{Op: meta.OpMknod, Ino: posix.Root, Name: name, Mode: 0o600, Flags: meta.Exclusive}
	return ask.Request{Kind: ask.Update, Session: 7, Seq: seq, Done: prepared - 1, Command: c.Append(nil)}
}

// isSound requires that no command or post is open, and that the partitions agree.
func (s *several) isSound() {
	s.t.Helper()
	var all []meta.Keys
	for _, f := range s.nodes {
		require.Empty(s.t, f.machine.Destinations())
		require.Empty(s.t, meta.Check(f.keys))
		all = append(all, f.keys)
	}
	require.Empty(s.t, meta.CheckAll(all))
}

// answeredFirst checks that q is answered before partition 1 learns of it.
func (s *several) answeredFirst(q ask.Request) ask.Reply {
	s.t.Helper()
	token := s.send(0, q)
	s.turn(0)
	require.Contains(s.t, s.got, token)
	return s.got[token]
}

// The answer does not wait for the other partition; requests there about the inode do.
func TestMakingElsewhereIsAnsweredAtOnce(t *testing.T) {
	s := ready(t)
	p := s.answeredFirst(makeThere("f", prepared))
	made := result(t, p)
	require.Equal(t, posix.OK, made.Code)
	require.EqualValues(t, 1, made.Number)
	q := getAttr(made.Attr.Ino)
	q.Vector = p.Vector
	waits := s.send(1, q)
	s.settle()
	require.Equal(t, made.Attr, result(t, s.got[waits]).Attr)
	require.Equal(t, made.Attr, result(t, s.ask(1, q)).Attr)
	require.Equal(t, made.Attr.Ino, result(t, s.ask(0, makeThere("f", prepared))).Attr.Ino, "its answer is kept")
	require.Equal(t, posix.EEXIST, result(t, s.ask(0, makeThere("f", prepared+1))).Code)
	s.isSound()
}

// Posts come again after messages were lost and replicas have stopped, wherever that was.
func TestPostsComeThrough(t *testing.T) {
	for turns := range 6 {
		s := ready(t)
		s.cut = true
		var made []meta.Result
		for i, name := range []string{"a", "b", "c"} {
			made = append(made, result(t, s.answeredFirst(makeThere(name, prepared+uint64(i)))))
		}
		for range turns {
			s.turn(turns % 2)
		}
		s.restart(0)
		s.restart(1)
		s.cut = false
		s.sleep(2 * time.Second)
		s.sleep(2 * time.Second)
		for i := range made {
			require.Equal(t, made[i].Attr, result(t, s.ask(1, getAttr(made[i].Attr.Ino))).Attr)
		}
		s.isSound()
	}
}
