package sim

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/pkg/multicast"
	"github.com/globalfs/globalfs/pkg/multicast/check"
	"github.com/globalfs/globalfs/pkg/multicast/primcast"
)

// classy is PrimCast that orders by classes.
func classy(cfg primcast.Config) Protocol {
	cfg.Classes = true
	p := primCastWith(cfg)
	p.SafeOf = func(core multicast.Core, class multicast.Class) multicast.Timestamp {
		return core.(*primcast.Core).SafeOf(class)
	}
	return p
}

// classesRun draws a run with all faults of links and processes, several groups, and destinations of all
// kinds.
func classesRun(seed uint64) (Config, Workload, primcast.Config) {
	shapes := [][]int{{3, 3, 3}, {1, 3, 3}, {3, 1, 1, 3}, {5, 3, 1}, {3, 3, 3, 3}}
	cfg, w, _ := primCastCutsOn(seed, shapes[seed%uint64(len(shapes))]...)
	rng := rand.New(rand.NewPCG(seed, 13))
	w.Messages *= 2
	p := everything(seed)
	if rng.IntN(2) == 0 {
		p = little(seed, &cfg, p)
	}
	return cfg, w, p
}

// TestClasses: all promises hold within each class, under all faults, with state that is taken over, and with
// windows that are full.
func TestClasses(t *testing.T) {
	var reach Reach
	seeds(t, 600, func(seed uint64) error {
		cfg, w, p := classesRun(seed)
		cfg.Faults.Chase = int(seed % 2)
		w.SendersFinish = seed%3 == 0
		return judge(cfg, w, classy(p), &reach)
	})
	t.Logf("reached: %+v", reach)
	reach.requireMarks(t, Torn, Unsent, CutFrames, CutOneWay, CutSurvived, Chased, Transferred, Overflowed)
	if *oneSeed == 0 && *seedCount == 0 {
		require.Greater(t, reach.Restarts, 1000)
		require.Greater(t, reach.Repeated, 1000)
	}
}

// TestClassesAhead: messages are few, and often a process that has just restarted is the one whose state the
// others take over.
func TestClassesAhead(t *testing.T) {
	var reach Reach
	seeds(t, 300, func(seed uint64) error {
		cfg, w, p := classesRun(seed)
		w.Every *= 10
		cfg.Faults.Ahead = 5
		p.Retain = 64 // a message
		return judge(cfg, w, classy(p), &reach)
	})
	t.Logf("reached: %+v", reach)
	reach.requireMarks(t, Transferred)
}

// TestClassesLearned: state machines learn deliveries also by another way than their core, as those of
// replicas do from the order of their partition.
func TestClassesLearned(t *testing.T) {
	var reach Reach
	seeds(t, 300, func(seed uint64) error {
		cfg, w, p := classesRun(seed)
		cfg.Faults.Learn, cfg.Faults.Chase = 10, 1
		p.Retain = 64 // a message
		return judge(cfg, w, classy(p), &reach)
	})
	t.Logf("reached: %+v", reach)
	reach.requireMarks(t, Learned, Transferred, Chased)
}

// stuckRun is three groups of three of which the last one is cut off. More messages to the first one and it
// than a sender's window takes wait for it.
type stuckRun struct {
	*run
	t      *testing.T
	stuck  []*sent
	others []*sent
}

func newStuckRun(t *testing.T, classes bool) *stuckRun {
	cfg, _ := config(1, 3, 3, 3)
	p := primcast.Config{
		FetchAfter: 20 * time.Millisecond, SuspectAfter: 100 * time.Millisecond, CheckpointMin: 1 << 12, Retain: 1 << 12, Window: 8, HybridClock: true,
	}
	protocol := primCastWith(p)
	if classes {
		protocol = classy(p)
	}
	w := everybody(&cfg, 0, 0)
	w.Payload = 200
	s := &stuckRun{run: newRun(cfg, w, protocol), t: t}
	var err error
	s.net, err = New(s.cfg, s.boot)
	require.NoError(t, err)
	s.after(100 * time.Millisecond)
	for _, from := range cfg.Groups[2].Members {
		for _, g := range cfg.Groups[:2] {
			for _, to := range g.Members {
				s.net.cutLink(s.net.processes[from], s.net.processes[to], time.Hour)
				s.net.cutLink(s.net.processes[to], s.net.processes[from], time.Hour)
			}
		}
	}
	for range 20 {
		s.stuck = append(s.stuck, s.send(0, 0, 2))
	}
	return s
}

func (s *stuckRun) after(d time.Duration) { s.net.Run(s.net.Now() + d) }

// send multicasts from a member of a group to groups.
func (s *stuckRun) send(from int, to ...int) *sent {
	var dest []multicast.GroupID
	for _, g := range to {
		dest = append(dest, s.cfg.Groups[g].ID)
	}
	s.multicast(s.cfg.Groups[from].Members[1], dest)
	return s.order[len(s.order)-1]
}

// work multicasts to all classes without the group that is cut off, one message a millisecond.
func (s *stuckRun) work(messages int) {
	for i := range messages {
		to := [][]int{{0}, {0, 1}, {1}}[i%3]
		s.others = append(s.others, s.send(i%2, to...))
		s.after(time.Millisecond)
	}
	s.after(time.Second)
}

// delivered counts the messages of which all destinations have been delivered to.
func (s *stuckRun) delivered(messages []*sent) (count int) {
	for _, m := range messages {
		if m.by == m.of {
			count++
		}
	}
	return count
}

// rest lets the state machines become durable, and what is covered be told.
func (s *stuckRun) rest() {
	for range 40 {
		for _, g := range s.cfg.Groups[:2] {
			for _, p := range g.Members {
				s.net.Poke(p)
			}
		}
		s.work(3)
	}
}

func (s *stuckRun) core(p multicast.ProcessID) *primcast.Core {
	return s.net.Node(p).(*coreNode).core.(*primcast.Core)
}

// requireLittleKept: of all that was multicast, the members of the groups that are not cut off keep what is
// stuck, and the last few others.
func (s *stuckRun) requireLittleKept() {
	for i, g := range s.cfg.Groups[:2] {
		for _, p := range g.Members {
			stats := s.core(p).Stats()
			require.LessOrEqual(s.t, stats.Entries, 8*(1-i)+30, "process %d: %+v", p, stats)
			require.LessOrEqual(s.t, stats.Bytes, (8*(1-i)+30)*300, "process %d: %+v", p, stats)
			require.LessOrEqual(s.t, len(s.core(p).Checkpoint()), (8*(1-i)+30)*300+1000)
		}
	}
}

// heal ends the cut, and checks all that has happened. So many of the messages that were stuck are delivered
// then.
func (s *stuckRun) heal(stuck int) {
	s.net.Heal()
	require.True(s.t, s.settle())
	require.Equal(s.t, stuck, s.delivered(s.stuck))
	require.NoError(s.t, s.net.Err())
	r := s.result()
	require.Empty(s.t, check.Describe(r.Violations))
}

// TestStuckMessagesPinNothing: a group that is cut off delays the classes that it is in. Others are
// delivered, covered and forgotten by all members, over restarts too, and a sender's window in one class is
// no other's.
func TestStuckMessagesPinNothing(t *testing.T) {
	s := newStuckRun(t, true)
	s.work(2000)
	require.Equal(t, len(s.others), s.delivered(s.others))
	require.Zero(t, s.delivered(s.stuck))
	s.rest()
	s.requireLittleKept()

	for _, p := range s.cfg.Groups[0].Members {
		s.net.crash(s.net.Now(), s.net.processes[p])
		s.work(100)
	}
	require.Equal(t, len(s.others), s.delivered(s.others))
	s.rest()
	s.requireLittleKept()
	require.Zero(t, s.net.Marks()[Transferred])
	s.heal(8) // the sender has taken with it what waited for its window
}

// TestStuckWithoutClasses: what TestStuckMessagesPinNothing shows takes classes.
func TestStuckWithoutClasses(t *testing.T) {
	s := newStuckRun(t, false)
	s.work(100)
	require.Less(t, s.delivered(s.others), 50)
	s.heal(20)
}

// TestStuckAndLeftBehind: a member that was away for longer than the others keep what it lacks takes over the
// state of one of them, with what is stuck.
func TestStuckAndLeftBehind(t *testing.T) {
	s := newStuckRun(t, true)
	away := s.cfg.Groups[0].Members[2]
	s.work(50)
	s.net.crash(s.net.Now()+3*time.Second, s.net.processes[away])
	for range 20 {
		s.work(50)
	}
	s.work(200)
	require.Positive(t, s.net.Marks()[Transferred])
	require.Equal(t, len(s.others), s.delivered(s.others))
	s.rest()
	s.requireLittleKept()
	s.heal(20)
}
