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

// classy returns PrimCast that orders by classes.
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

// TestClasses: all promises hold within each class, under all faults, with transfers of state, and with full
// windows.
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

// TestClassesAhead: messages are few, and often the others take over the state of a process that has just
// restarted.
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

// TestClassesLearned: state machines learn deliveries also by another way than their core, as the state
// machines of replicas do from the order of their partition.
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

// stuckRun has three groups of three; the last group is cut off. The messages to the first and the last group
// wait for it, and exceed a sender's window.
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

// work multicasts to all classes that do not contain the cut-off group, one message a millisecond.
func (s *stuckRun) work(messages int) {
	for i := range messages {
		to := [][]int{{0}, {0, 1}, {1}}[i%3]
		s.others = append(s.others, s.send(i%2, to...))
		s.after(time.Millisecond)
	}
	s.after(time.Second)
}

// delivered counts the messages that all their destinations have delivered.
func (s *stuckRun) delivered(messages []*sent) (count int) {
	for _, m := range messages {
		if m.deliveries == m.expected {
			count++
		}
	}
	return count
}

// rest lets the state machines become durable, and lets the processes spread the covered positions.
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

// requireLittleKept: the members of the groups that are not cut off keep only the stuck messages and the last
// few others.
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

// heal ends the cut and checks the whole run. The argument is the number of stuck messages that are delivered
// then.
func (s *stuckRun) heal(stuck int) {
	s.net.Heal()
	require.True(s.t, s.settle())
	require.Equal(s.t, stuck, s.delivered(s.stuck))
	require.NoError(s.t, s.net.Err())
	r := s.result()
	require.Empty(s.t, check.Describe(r.Violations))
}

// TestStuckMessagesPinNothing: a cut-off group delays only the classes that contain it. Messages of other
// classes are delivered, covered and forgotten by all members, also over restarts, and each class has its own
// window of a sender.
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
	s.heal(8) // the sender has lost the messages that waited for its window
}

// Without classes, the property that TestStuckMessagesPinNothing checks does not hold.
func TestStuckWithoutClasses(t *testing.T) {
	s := newStuckRun(t, false)
	s.work(100)
	require.Less(t, s.delivered(s.others), 50)
	s.heal(20)
}

// TestStuckAndLeftBehind: a member was away until the others had forgotten messages that it lacks. It takes
// over the state of another member, with the stuck messages.
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
