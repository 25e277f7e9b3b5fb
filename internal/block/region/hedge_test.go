package region

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/block"
	"github.com/globalfs/globalfs/pkg/multicast"
	"github.com/globalfs/globalfs/test/bubble"
)

var hedgeSeed = flag.Uint64("block.hedgeseed", 0, "seed of TestHedgedTail; 0: a new one")

// slowCaller is a set of slow servers that all have every block.
type slowCaller struct {
	reply []byte
	// takes returns the time that a server takes; negative: for ever.
	takes func(server multicast.ProcessID) time.Duration

	mu    sync.Mutex
	calls map[multicast.ProcessID]int // GUARDED_BY mu
	now   int                         // GUARDED_BY mu; calls that have not returned
}

func newSlowCaller(takes func(multicast.ProcessID) time.Duration) *slowCaller {
	return &slowCaller{reply: replyBlock(block.ID{1}, []byte("data")), takes: takes, calls: map[multicast.ProcessID]int{}}
}

const hung = -1 * time.Second

func (s *slowCaller) Call(ctx context.Context, to multicast.ProcessID, _ []byte) ([]byte, error) {
	s.mu.Lock()
	s.calls[to]++
	s.now++
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.now--
	}()
	var done <-chan time.Time
	if takes := s.takes(to); takes >= 0 {
		timer := time.NewTimer(takes)
		defer timer.Stop()
		done = timer.C
	}
	select {
	case <-done:
		return s.reply, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (s *slowCaller) count() (calls int, now int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range s.calls {
		calls += n
	}
	return calls, s.now
}

// five returns a region of five servers, the first is the nearest.
func five(t testing.TB, s *slowCaller) *Remote {
	r, err := NewRemote(s, []multicast.ProcessID{1, 2, 3, 4, 5}, 10*time.Second)
	require.NoError(t, err)
	return r
}

// gets makes n gets and returns the time of each.
func gets(t testing.TB, r *Remote, n int) []time.Duration {
	took := make([]time.Duration, n)
	for i := range took {
		began := time.Now()
		data, err := r.Get(t.Context(), block.ID{1}, nil)
		require.NoError(t, err)
		require.Equal(t, "data", string(data))
		took[i] = time.Since(began)
	}
	return took
}

// TestHedgedHungServer: the first get waits a little longer than the usual time of an answer, not for the
// timeout. The next ones do not wait, and the server is asked only now and then.
func TestHedgedHungServer(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		isHung := false
		s := newSlowCaller(func(server multicast.ProcessID) time.Duration {
			if isHung && server == 1 {
				return hung
			}
			return 3 * time.Millisecond
		})
		r := five(t, s)
		for _, took := range gets(t, r, 400) {
			require.Equal(t, 3*time.Millisecond, took)
		}
		require.Equal(t, 400, s.calls[1], "nobody is asked twice as long as all is well")
		isHung = true
		took := gets(t, r, 100)
		require.Greater(t, took[0], 6*time.Millisecond)
		require.Less(t, took[0], 100*time.Millisecond, "it has come down from its first value")
		require.Equal(t, 3*time.Millisecond, slices.Max(took[1:]))
		require.Equal(t, 401, s.calls[1])
		_, now := s.count()
		require.Zero(t, now, "the request to the hung server was cancelled and waited for")
		time.Sleep(suspicion) // fake time
		took = gets(t, r, 100)
		require.Less(t, took[0], 100*time.Millisecond)
		require.Equal(t, 402, s.calls[1], "it gets another chance")
		isHung = false
		time.Sleep(suspicion) // fake time
		gets(t, r, 1)
		require.Equal(t, 403, s.calls[1])
	})
}

// TestHedgedAllSlow: a region that is slow as a whole does not get twice as many requests.
func TestHedgedAllSlow(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		slow := time.Duration(1)
		s := newSlowCaller(func(multicast.ProcessID) time.Duration { return slow * time.Millisecond })
		r := five(t, s)
		gets(t, r, 1000)
		for _, slow = range []time.Duration{20, 100, 400, 3000} {
			before, _ := s.count()
			gets(t, r, 1000)
			after, _ := s.count()
			require.LessOrEqual(t, float64(after-before), 1000+1000*hedgeShare+hedgeBurst, "%d ms", slow)
		}
	})
}

// TestHedgedOutcomes: errors lead to the next server; final errors and the context end the call.
func TestHedgedOutcomes(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		final := errors.New("final")
		ask := func(ctx context.Context, try func(context.Context, int) (string, error)) (string, time.Duration, error) {
			h := newHedging()
			h.wait = 10 * time.Millisecond
			began := time.Now()
			got, err := hedged(ctx, h, []int{1, 2, 3}, try, func(err error) bool { return errors.Is(err, final) })
			return got, time.Since(began), err
		}
		wait := func(ctx context.Context, d time.Duration) {
			select {
			case <-time.After(d):
			case <-ctx.Done():
			}
		}
		got, took, err := ask(t.Context(), func(_ context.Context, c int) (string, error) {
			if c < 3 {
				return "", fmt.Errorf("server %d is down", c)
			}
			return "third", nil
		})
		require.NoError(t, err)
		require.Equal(t, "third", got)
		require.Zero(t, took)

		_, _, err = ask(t.Context(), func(_ context.Context, c int) (string, error) { return "", fmt.Errorf("server %d is down", c) })
		require.ErrorContains(t, err, "server 3 is down")

		_, took, err = ask(t.Context(), func(ctx context.Context, c int) (string, error) {
			if c == 2 {
				return "", final
			}
			wait(ctx, time.Hour)
			return "", ctx.Err()
		})
		require.ErrorIs(t, err, final)
		require.Equal(t, 10*time.Millisecond, took)

		got, took, err = ask(t.Context(), func(ctx context.Context, c int) (string, error) {
			if c == 1 {
				wait(ctx, 15*time.Millisecond)
				return "first", nil
			}
			wait(ctx, time.Hour)
			wait(context.Background(), 3*time.Millisecond)
			return "", ctx.Err()
		})
		require.NoError(t, err)
		require.Equal(t, "first", got, "the first answer counts")
		require.Equal(t, 18*time.Millisecond, took, "the other request is cancelled and waited for")

		got, _, err = ask(t.Context(), func(ctx context.Context, c int) (string, error) {
			switch c {
			case 1:
				wait(ctx, 12*time.Millisecond)
				return "", errors.New("down")
			case 2:
				wait(ctx, time.Hour)
				return "", ctx.Err()
			}
			return "third", nil
		})
		require.NoError(t, err)
		require.Equal(t, "third", got, "when the first fails the third is asked, beside the second")

		ctx, cancel := context.WithTimeout(t.Context(), 25*time.Millisecond)
		defer cancel()
		_, took, err = ask(ctx, func(ctx context.Context, _ int) (string, error) {
			wait(ctx, time.Hour)
			return "", ctx.Err()
		})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, 25*time.Millisecond, took)
	})
}

// tail returns a region with a nearest server that takes 100 times as long as the others for one get in ten.
func tail(random *rand.Rand) func(multicast.ProcessID) time.Duration {
	var mu sync.Mutex
	return func(server multicast.ProcessID) time.Duration {
		mu.Lock()
		defer mu.Unlock()
		if server == 1 && random.IntN(10) == 0 {
			return 100 * time.Millisecond
		}
		return time.Millisecond
	}
}

// alone are r's gets without hedging.
func alone(r *Remote) *Remote {
	r.hedging.credit = -1e9
	return r
}

func percentile(took []time.Duration, p int) time.Duration {
	took = slices.Sorted(slices.Values(took))
	return took[(len(took)-1)*p/100]
}

// TestHedgedTail: one server of five that is sometimes slow does not make the slowest gets slow.
func TestHedgedTail(t *testing.T) {
	seed := *hedgeSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("replay: -block.hedgeseed=%d", seed)
	bubble.Test(t, func(t *testing.T) {
		measure := func(with func(*Remote) *Remote) time.Duration {
			r := with(five(t, newSlowCaller(tail(rand.New(rand.NewPCG(seed, 1))))))
			gets(t, r, 200)
			return percentile(gets(t, r, 5000), 99)
		}
		without, with := measure(alone), measure(func(r *Remote) *Remote { return r })
		t.Logf("99 %% of gets within %v without, %v with hedging", without, with)
		require.Equal(t, 100*time.Millisecond, without)
		require.Less(t, with, 20*time.Millisecond)
	})
}

// BenchmarkHedged has five servers. The nearest is slow one time in ten, with and without hedging in one run.
// "idle" measures the cost of hedging without slow servers.
func BenchmarkHedged(b *testing.B) {
	for _, run := range []struct {
		name string
		with func(*Remote) *Remote
	}{{"without", alone}, {"with", func(r *Remote) *Remote { return r }}} {
		b.Run(run.name, func(b *testing.B) {
			r := run.with(five(b, newSlowCaller(tail(rand.New(rand.NewPCG(1, 1))))))
			var took []time.Duration
			for b.Loop() {
				took = append(took, gets(b, r, 1)...)
			}
			b.ReportMetric(float64(percentile(took, 50).Microseconds()), "p50-us")
			b.ReportMetric(float64(percentile(took, 99).Microseconds()), "p99-us")
		})
	}
	b.Run("idle", func(b *testing.B) {
		r := five(b, newSlowCaller(func(multicast.ProcessID) time.Duration { return 0 }))
		b.ReportAllocs()
		h, try := r.hedging, func(context.Context, int) (int, error) { return 0, nil }
		for b.Loop() {
			if _, err := hedged(b.Context(), h, []int{1, 2}, try, isFinal); err != nil {
				b.Fatal(err)
			}
		}
	})
}
