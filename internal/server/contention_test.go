package server

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/test/bubble"
	"github.com/globalfs/globalfs/test/logged"
)

var notRoot = []posix.IDs{{First: 1, Last: 1<<32 - 1}}

// narrow returns a client with a certificate that names users.
func narrow(name string) *ask.Client {
	return &ask.Client{Name: name, Authority: &posix.Authority{UIDs: []posix.IDs{{First: 1000, Last: 1000}}, GIDs: notRoot}}
}

// usual returns a client for all users but root.
func usual(name string) *ask.Client {
	return &ask.Client{Name: name, Authority: &posix.Authority{UIDs: notRoot, GIDs: notRoot}}
}

// anyRights returns a client with the rights of root.
func anyRights(name string) *ask.Client { return &ask.Client{Name: name, Authority: posix.Everybody()} }

// busy returns a contention on a machine whose processors are always short, or never.
func busy(short bool) *contention {
	c := newContention()
	c.isShort = func() bool { return short }
	return c
}

const unit = 10 * time.Millisecond // the duration of a request

// load makes requests of a client, so many at a time, until ctx ends.
type load struct {
	done   int // finished requests
	refuse int // requests without a turn
	most   int // requests that ran at a time
	now    int
	mu     sync.Mutex
}

func (l *load) run(ctx context.Context, c *contention, client *ask.Client, parallel int) {
	var all sync.WaitGroup
	for range parallel {
		all.Go(func() {
			for ctx.Err() == nil {
				end, err := c.take(ctx, client, patientFor)
				l.count(1, err)
				if err != nil {
					continue
				}
				time.Sleep(unit)
				l.count(-1, nil) // end begins the next one
				end()
			}
		})
	}
	all.Wait()
}

func (l *load) count(by int, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case errors.Is(err, errNoTurn):
		l.refuse++
	case err != nil: // the load ends
	case by > 0:
		l.now++
		l.most = max(l.most, l.now)
	default:
		l.now--
		l.done++
	}
}

// during runs the loads of clients beside each other for a time.
func during(t *testing.T, c *contention, d time.Duration, parallel map[*ask.Client]int) map[*ask.Client]*load {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	loads := map[*ask.Client]*load{}
	var all sync.WaitGroup
	for client, n := range parallel {
		l := &load{}
		loads[client] = l
		all.Go(func() { l.run(ctx, c, client, n) })
	}
	all.Wait()
	return loads
}

// A client whose certificate names users has one request at a time on a busy machine while another works, and
// pauses. Alone, or on an idle machine, it is not limited. Other clients never are.
func TestGivesWay(t *testing.T) {
	for name, c := range map[string]struct {
		short bool
		other *ask.Client
		most  int
	}{
		"busy, beside another": {true, usual("mount"), 1},
		"busy, alone":          {true, nil, 10},
		"idle":                 {false, usual("mount"), 10},
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				hostile, parallel := narrow("hostile"), map[*ask.Client]int{}
				parallel[hostile] = 10
				if c.other != nil {
					parallel[c.other] = 1
				}
				contended := busy(c.short)
				during(t, contended, time.Second, parallel) // the first sample has been taken
				loads := during(t, contended, 4*time.Second, parallel)
				require.Equal(t, c.most, loads[hostile].most)
				if c.most == 1 {
					require.InDelta(t, 4*time.Second/(unit+pauseFactor*unit), loads[hostile].done, 3)
				} else {
					require.InDelta(t, 10*4*time.Second/unit, loads[hostile].done, 20)
				}
				if c.other != nil {
					require.InDelta(t, 4*time.Second/unit, loads[c.other].done, 1, "never limited")
				}
				require.Zero(t, loads[hostile].refuse)
			})
		})
	}
}

// Two clients that work alike get as much as without a limit. A client that works more gives way to one that
// works less.
func TestGivesWayToTheLess(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		a, b, c := narrow("a"), narrow("b"), busy(true)
		for client, l := range during(t, c, 4*time.Second, map[*ask.Client]int{a: 8, b: 8}) {
			require.InEpsilon(t, 8*4*time.Second/unit, l.done, 0.1, client.Name)
		}
		time.Sleep(10 * time.Second)
		during(t, c, time.Second, map[*ask.Client]int{a: 20, b: 1})
		loads := during(t, c, 4*time.Second, map[*ask.Client]int{a: 20, b: 1})
		require.InDelta(t, 4*time.Second/unit, loads[b].done, 1)
		require.Less(t, loads[a].done, 3*loads[b].done, "without the limit it would be 20 times as much")
	})
}

// Usual clients that work alike are not limited.
func TestUsualClientsDoNotGiveWay(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := busy(true)
		for client, l := range during(t, c, 4*time.Second, map[*ask.Client]int{usual("a"): 20, usual("b"): 20}) {
			require.Equal(t, 20, l.most, client.Name)
			require.InEpsilon(t, 20*4*time.Second/unit, l.done, 0.05, client.Name)
		}
	})
}

// A usual client that works more than another has a few requests at a time for each processor. Alone, or on
// an idle machine, it is not limited. A client with the rights of root is never limited.
func TestUsualClientGivesWay(t *testing.T) {
	for name, x := range map[string]struct {
		short       bool
		heavy, less *ask.Client
		most        int
	}{
		"beside a usual one":  {true, usual("hostile"), usual("mount"), 8},
		"beside a narrow one": {true, usual("hostile"), narrow("laptop"), 8},
		"beside root":         {true, usual("hostile"), anyRights("mount"), 8},
		"alone":               {true, usual("hostile"), nil, 100},
		"idle":                {false, usual("hostile"), usual("mount"), 100},
		"root":                {true, anyRights("backup"), usual("mount"), 100},
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				c := busy(x.short)
				c.usual = 8
				parallel := map[*ask.Client]int{x.heavy: 100}
				if x.less != nil {
					parallel[x.less] = 1
				}
				during(t, c, time.Second, parallel)
				time.Sleep(unit)
				loads := during(t, c, 4*time.Second, parallel)
				require.Equal(t, x.most, loads[x.heavy].most)
				require.InEpsilon(t, time.Duration(x.most)*4*time.Second/unit, loads[x.heavy].done, 0.05, "without pauses")
			})
		})
	}
}

// After the processors were short, the number of requests at a time grows slowly, to no limit.
func TestLimitEnds(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		short, hostile, mount := true, narrow("hostile"), usual("mount")
		c := newContention()
		c.isShort = func() bool { return short }
		beside := func(d time.Duration) int {
			return during(t, c, d, map[*ask.Client]int{hostile: mostSlots + 10, mount: 1})[hostile].most
		}
		beside(time.Second)
		require.Equal(t, 1, beside(time.Second))
		short = false
		require.Equal(t, 1, beside(shortFor-sampleEvery))
		require.InDelta(t, 10, beside(10*growEvery), 3)
		beside(mostSlots * growEvery)
		require.Equal(t, mostSlots+10, beside(time.Second))
		short = true
		beside(sampleEvery)
		require.Equal(t, 1, beside(time.Second))
		require.Equal(t, mostSlots+10, during(t, c, time.Second+activeFor, map[*ask.Client]int{hostile: mostSlots + 10})[hostile].most, "alone")
	})
}

// work makes a short request of a client.
func work(t *testing.T, c *contention, client *ask.Client) {
	done, err := c.take(t.Context(), client, patientFor)
	require.NoError(t, err)
	done()
}

// limitedBy returns a contention in which a client is limited, with the turn of one of its requests.
func limitedBy(t *testing.T, client *ask.Client) (c *contention, done func()) {
	c = busy(true)
	work(t, c, usual("mount"))
	time.Sleep(sampleEvery)
	done, err := c.take(t.Context(), client, patientFor)
	require.NoError(t, err)
	return c, done
}

// A request that takes long gives up its turn, also if it never ends. Its end then ends no other turn.
func TestTurnOfALongRequest(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		client := narrow("c")
		c, done := limitedBy(t, client)
		began := time.Now()
		second, err := c.take(t.Context(), client, patientFor)
		require.NoError(t, err)
		require.Equal(t, 2*holdMost, time.Since(began))
		done()
		done()
		require.Equal(t, 1, running(c, "c"))
		second()
		require.Zero(t, running(c, "c"))
	})
}

// running returns the number of requests of a client in their turn.
func running(c *contention, client string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lanes[client].running
}

// A request whose turn does not come within the patience is refused, and so is one whose caller has left.
func TestNoTurn(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		client := narrow("c")
		c, done := limitedBy(t, client)
		began := time.Now()
		_, err := c.take(t.Context(), client, holdMost/2)
		require.ErrorIs(t, err, errNoTurn)
		require.Equal(t, holdMost/2, time.Since(began))
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		_, err = c.take(ctx, client, patientFor)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		done()
		c.mu.Lock()
		defer c.mu.Unlock()
		require.Empty(t, c.lanes["c"].waiting, "a refused request has no turn any more")
	})
}

// The requests of replicas and of the storage server wait for the same turn. Barriers count, and requests
// that wait for changes do not hold the turn. A refusal is in the log, once a minute.
func TestTurnsOfServer(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var log logged.Text
		client := narrow("c")
		c, done := limitedBy(t, client)
		s := &Server{cfg: Config{
			Logger: log.Logger(), Name: "westa",
			Asker: func(context.Context) Asker { return Asker{Name: client.Name, Authority: client.Authority} },
		}}
		s.admission = newAdmission(&s.cfg)
		s.admission.contention = c
		done()
		for kind, holds := range map[ask.Kind]int{ask.Query: 1, ask.Update: 1, ask.Persist: 1, ask.RenewSession: 1, ask.Watch: 0} {
			done, err := s.admission.turn(t.Context(), client, kind)
			require.NoError(t, err)
			require.Equal(t, holds, c.lanes["c"].running, kind)
			done()
			require.Zero(t, c.lanes["c"].running)
		}
		c.lanes["c"].running++ // a turn that does not end
		for _, kind := range []ask.Kind{ask.Query, ask.Update, ask.Persist, ask.Watch, ask.OpenSession} {
			work(t, c, usual("mount"))
			began := time.Now()
			answer, err := s.ask(t.Context(), &hosted{partition: 1}, client, []byte{byte(kind), 1})
			require.NoError(t, err, kind)
			reply, err := ask.DecodeReply(answer)
			require.NoError(t, err)
			require.Equal(t, ask.Overloaded, reply.Status, kind)
			require.Equal(t, patientFor, time.Since(began), kind)
		}
		work(t, c, usual("mount"))
		began := time.Now()
		storage := &Storage{cfg: StorageConfig{Turn: s.admission.storage}}
		_, err := storage.handle(t.Context(), []byte{1})
		require.ErrorIs(t, err, errNoTurn)
		require.Equal(t, blockTimeout, time.Since(began))
		require.Equal(t, 1, log.Count(logNoTurn), "once a minute")
	})
}

// The number of remembered clients is bounded.
func TestContentionForgets(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := busy(true)
		for i := range 3 * maxLanes {
			done, err := c.take(t.Context(), narrow(fmt.Sprint(i)), patientFor)
			require.NoError(t, err)
			done()
			time.Sleep(time.Millisecond)
		}
		require.LessOrEqual(t, len(c.lanes), maxLanes)
	})
}

func BenchmarkTake(b *testing.B) {
	for client, name := range map[*ask.Client]string{anyRights("root"): "root", usual("mount"): "usual", narrow("c"): "narrow"} {
		b.Run(name, func(b *testing.B) {
			c := newContention()
			for b.Loop() {
				done, err := c.take(b.Context(), client, patientFor)
				require.NoError(b, err)
				done()
			}
		})
	}
}
