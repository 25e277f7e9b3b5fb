package replica

import (
	"flag"
	"fmt"
	"iter"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
)

var chaosSeeds = flag.Uint64("chaos.seeds", 12, "random schedules of TestCommandsUnderLossAndRestarts")

// chaos is clients that move files between partitions, while messages are lost and replicas restart.
type chaos struct {
	*cluster
	t      *testing.T
	shared []*sharedFile
	flags  []sign
	moves  map[posix.Code]int // answers to moves
	until  time.Duration      // when the clients stop
}

// sharedFile is a file that all clients move. Its names are never used twice.
type sharedFile struct {
	ino   posix.Ino
	first spot
	last  spot              // as the clients believe
	moves map[spot]spot     // answered with OK
	never map[spot]struct{} // targets of moves that were answered with another code
}

// sign is a name that a client has made after a move: the old name is gone for every client that sees it.
type sign struct {
	at, gone spot
}

// actor is one client. It issues one request at a time.
type actor struct {
	*chaos
	session uint64
	seq     [partitions]uint64
	vector  ask.Vector
	made    int
	yield   func(struct{}) bool
}

// wait lets a tick pass.
func (a *actor) wait() {
	if !a.yield(struct{}{}) {
		runtime.Goexit() // the test has failed
	}
}

// do sends a request until it is answered, to several replicas if need be.
func (a *actor) do(partition uint16, q ask.Request) ask.Reply {
	var tokens []uint64
	start := a.mono
	for {
		tokens = append(tokens, a.send(a.any(partition), q))
		if a.random.IntN(8) == 0 {
			tokens = append(tokens, a.send(a.any(partition), q))
		}
		for again := a.mono + time.Duration(500+a.random.IntN(4000))*time.Millisecond; a.mono < again; {
			a.wait()
			require.Less(a.t, a.mono-start, 3*time.Minute, "session %d: no answer to %+v", a.session, q)
			i := slices.IndexFunc(tokens, a.isAnswered)
			if i < 0 {
				continue
			}
			p := a.got[tokens[i]]
			if p.Status != ask.Overloaded {
				a.vector = a.vector.Merge(p.Vector)
				return p
			}
			tokens = slices.Delete(tokens, i, i+1)
		}
	}
}

// update has an update executed by one of its parties.
func (a *actor) update(partition uint16, q ask.Request) (code posix.Code, ino posix.Ino) {
	a.seq[partition]++
	q.Session, q.Seq, q.Done, q.Vector = a.session, a.seq[partition], a.seq[partition]-1, a.vector.Clone()
	m := result(a.t, a.do(partition, q))
	return m.Code, m.Attr.Ino
}

// isThere looks up a name with the client's vector.
func (a *actor) isThere(s spot) bool {
	return result(a.t, a.do(s.partition, s.lookup(a.vector.Clone()))).Code == posix.OK
}

func (a *actor) newSpot() spot {
	a.made++
	return spot{uint16(a.random.IntN(partitions)), fmt.Sprintf("%d-%d", a.session, a.made)}
}

// rename moves a file; it asks any of its parties.
func (a *actor) rename(ino posix.Ino, from, to spot) posix.Code {
	q := move(0, 1, ino, from, to)
	coordinator := from.partition
	if len(q.Dest) > 0 {
		coordinator = q.Dest[a.random.IntN(len(q.Dest))]
	}
	if a.random.IntN(2) == 0 {
		q.Patience = time.Duration(1000+a.random.IntN(7000)) * time.Millisecond
	}
	code, _ := a.update(coordinator, q)
	a.moves[code]++
	return code
}

// live runs a client until its end: it moves its own file, and sometimes a file that other clients also move.
func (a *actor) live(yield func(struct{}) bool) {
	a.yield = yield
	ino, at := a.newFile()
	for a.mono < a.until {
		switch n := a.random.IntN(10); {
		case n == 0:
			a.unlink(at)
			ino, at = a.newFile()
		case n < 4:
			at = a.moveOwn(ino, at)
		case n < 8:
			a.moveShared()
		default:
			a.readFlag()
		}
	}
}

func (a *actor) newFile() (posix.Ino, spot) {
	at := a.newSpot()
	code, ino := a.update(at.partition, create(0, 1, at.partition, at.name))
	require.Equal(a.t, posix.OK, code)
	return ino, at
}

// unlink takes the name of a file, which may be away from its home: the home learns it from a post.
func (a *actor) unlink(at spot) {
	m := meta.Command{Op: meta.OpUnlink, Ino: root(at.partition), Name: at.name}
	code, _ := a.update(at.partition, ask.Request{Kind: ask.Update, Command: m.Append(nil)})
	require.Equal(a.t, posix.OK, code)
	require.False(a.t, a.isThere(at))
}

// moveOwn moves the client's own file. Only the time of the call may end the call, and the client sees its
// effect at once.
func (a *actor) moveOwn(ino posix.Ino, at spot) spot {
	to := a.newSpot()
	code := a.rename(ino, at, to)
	require.Contains(a.t, []posix.Code{posix.OK, posix.ETIMEDOUT}, code, "%v to %v", at, to)
	if code != posix.OK {
		require.False(a.t, a.isThere(to))
		require.True(a.t, a.isThere(at))
		return at
	}
	switch a.random.IntN(3) {
	case 0:
		return to // the client continues at once
	case 1: // the sign is made where the outcome may be late
		f := sign{at: a.newSpot(), gone: at}
		if a.random.IntN(2) == 0 {
			f.at.partition = at.partition
		}
		code, _ := a.update(f.at.partition, create(0, 1, f.at.partition, f.at.name))
		require.Equal(a.t, posix.OK, code)
		a.flags = append(a.flags, f)
	}
	require.True(a.t, a.isThere(to), "%v to %v: its new name", at, to)
	require.False(a.t, a.isThere(at), "%v to %v: its old name", at, to)
	return to
}

func (a *actor) moveShared() {
	f := a.shared[a.random.IntN(len(a.shared))]
	from, to := f.last, a.newSpot()
	switch a.rename(f.ino, from, to) {
	case posix.OK:
		require.NotContains(a.t, f.moves, from, "the name was moved twice")
		f.moves[from], f.last = to, to
	default:
		f.never[to] = struct{}{}
	}
}

// readFlag reads with an empty vector: a reader that sees the flag must see the move before it.
func (a *actor) readFlag() {
	if len(a.flags) == 0 {
		a.wait()
		return
	}
	f := a.flags[len(a.flags)-1] // mostly the newest
	if a.random.IntN(3) == 0 {
		f = a.flags[a.random.IntN(len(a.flags))]
	}
	mine := a.vector
	a.vector = nil
	require.False(a.t, a.isThere(f.at) && a.isThere(f.gone), "%+v: the flag is seen, and the name that was moved before it", f)
	a.vector = mine
}

// All commands end after a time with losses and restarts. Each command was executed at all its parties or at
// none, in agreement with the answer to its client.
func TestCommandsUnderLossAndRestarts(t *testing.T) {
	for seed := range *chaosSeeds {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) { runChaos(t, seed) })
	}
}

func runChaos(t *testing.T, seed uint64) {
	c := &chaos{cluster: newCluster(t, seed, 1+int(seed%3)), t: t, moves: map[posix.Code]int{}}
	for i := range 3 {
		c.shared = append(c.shared, &sharedFile{moves: map[spot]spot{}, never: map[spot]struct{}{}})
		c.shared[i].first = spot{uint16(i), fmt.Sprint("shared-", i)}
	}
	for _, m := range c.members {
		m.skew = time.Duration(c.random.IntN(400)) * time.Millisecond
	}
	var actors []*actor
	for session := uint64(1); session <= 6; session++ {
		actors = append(actors, &actor{chaos: c, session: session})
		c.open(session)
	}
	for i, f := range c.shared {
		f.ino, f.last = c.file(1, 1, f.first), f.first
		actors[0].seq[i] = 1
	}
	c.lag, c.loss, c.twice, c.delay = 12, 0.2, 0.2, 400*time.Millisecond
	c.stops = func(*member, int) bool { return c.random.IntN(150) == 0 }
	c.until = c.mono + 20*time.Second
	c.live(actors)

	for f, i := c.shared, 0; i < len(f); i++ {
		at := f[i].first
		for n := 0; f[i].moves[at] != (spot{}); n++ {
			require.LessOrEqual(t, n, len(f[i].moves))
			at = f[i].moves[at]
		}
		names := c.names()
		require.Equal(t, f[i].ino, names[at], "%v is not where its last move has put it", f[i].first)
		for s, ino := range names {
			require.True(t, ino != f[i].ino || s == at, "%v is also at %v", f[i].first, s)
		}
		for s := range f[i].never {
			require.NotContains(t, names, s, "its move was answered with an error")
		}
	}
	require.Greater(t, c.moves[posix.OK], 5)
	t.Log(c.moves)
}

// live runs the clients, with faults at first, until all is quiet.
func (c *chaos) live(actors []*actor) {
	var next []func() (struct{}, bool)
	for _, a := range actors {
		n, stop := iter.Pull(iter.Seq[struct{}](a.live))
		defer stop()
		next = append(next, n)
	}
	for len(next) > 0 {
		switch {
		case c.mono > c.until:
			c.heal()
			c.lag, c.loss, c.twice, c.delay, c.stops = 0, 0, 0, 0, nil
		case c.random.IntN(60) == 0:
			p := uint16(c.random.IntN(partitions))
			c.leader[p] = c.any(p)
		case c.random.IntN(60) == 0:
			cut := uint16(c.random.IntN(2 * partitions)) // a partition, or none
			c.cut = func(from, to *member) bool {
				return from.partition != to.partition && (from.partition == cut || to.partition == cut)
			}
			for _, m := range c.members {
				m.isHeld = m.partition == cut && c.random.IntN(2) == 0
			}
		}
		c.tick()
		next = slices.DeleteFunc(next, func(n func() (struct{}, bool)) bool { _, more := n(); return !more })
	}
	c.run(20 * time.Second)
	c.isQuiet()
	c.isSound()
}
