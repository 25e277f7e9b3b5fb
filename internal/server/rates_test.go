package server

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/test/bubble"
)

// allowed counts the requests of a client that a server executes in a time, if the client makes requests
// without a pause.
func allowed(t *testing.T, r *rates, client string, kind ask.Kind, during time.Duration) (n int) {
	for end := time.Now().Add(during); time.Now().Before(end); {
		if r.wait(t.Context(), client, kind, 100, 0) {
			n++
		} else {
			time.Sleep(time.Millisecond)
		}
	}
	return n
}

// A client gets its rate for any number of requests. Requests of one client do not reduce the rates of
// others.
func TestRates(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		r := newRates(ClientRates{Updates: 10, Calls: 100})
		require.InDelta(t, 2*10+10*10, allowed(t, r, "a", ask.Update, 10*time.Second), 5)
		require.InDelta(t, 2*10+10*10, allowed(t, r, "b", ask.RenewSession, 10*time.Second), 5)
		require.InDelta(t, 2*100+100*10, allowed(t, r, "c", ask.Query, 10*time.Second), 5)
		heavy := newRates(ClientRates{Bytes: 1000})
		require.InDelta(t, (2*1000+1000*10)/100, allowed(t, heavy, "a", ask.Update, 10*time.Second), 5)
		require.True(t, heavy.wait(t.Context(), "b", ask.Update, 1<<30, 0), "more than all at once counts as all")
		require.False(t, heavy.wait(t.Context(), "b", ask.Update, 1<<30, 0))
		require.True(t, heavy.wait(t.Context(), "b", ask.Query, 1<<30, 0), "queries leave nothing")
		proofs := newRates(ClientRates{Calls: 100})
		for range 2 * 100 / 33 {
			require.True(t, proofs.wait(t.Context(), "a", ask.Query, 10, ask.MaxProofs), "256 proofs count as 33 calls")
		}
		require.Less(t, allowed(t, proofs, "a", ask.Query, time.Second/10), 20)
		began := time.Now()
		for range 20 {
			require.True(t, r.wait(t.Context(), "d", ask.Update, 100, 0))
		}
		require.Equal(t, began, time.Now(), "a client that was silent is not delayed")
	})
}

// A client gets a part of its rate while another one works, and all of it when the other one is idle or only
// renews its session.
func TestRatesBesideOthers(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		r := newRates(ClientRates{Updates: 100, Calls: 1000, Bytes: 1 << 20})
		hostile := func() int {
			n := 0
			for range 10 {
				r.rivals.note("hostile", ask.Update, time.Now())
				n += allowed(t, r, "hostile", ask.Update, time.Second/10)
			}
			return n
		}
		for range 3 {
			hostile() // the burst is over
		}
		require.InDelta(t, 100, hostile(), 10)
		for kind, share := range map[ask.Kind]int{ask.Update: rivalCost, ask.Query: rivalCost, ask.Watch: 1, ask.RenewSession: 1} {
			time.Sleep(rivalFor)
			hostile()
			n := 0
			for range 10 {
				r.rivals.note("other", kind, time.Now())
				r.rivals.note("", ask.Update, time.Now())
				r.rivals.note("hostile", ask.Update, time.Now())
				n += allowed(t, r, "hostile", ask.Update, time.Second/10)
			}
			require.InDelta(t, 100/share, n, 10, kind)
		}
		time.Sleep(rivalFor)
		require.Equal(t, 1, r.rivals.cost("hostile", time.Now()))
		require.Equal(t, 1, r.rivals.cost("third", time.Now()))
		r.rivals.note("hostile", ask.Query, time.Now())
		require.Equal(t, rivalCost, r.rivals.cost("third", time.Now()))
	})
}

// Requests with too long a delay are refused, and do not count.
func TestRatesRefuse(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		r := newRates(ClientRates{Updates: 0.5, Calls: 100})
		require.True(t, r.wait(t.Context(), "a", ask.Update, 100, 0))
		began := time.Now()
		for range 1000 {
			require.False(t, r.wait(t.Context(), "a", ask.Update, 100, 0))
		}
		require.Equal(t, began, time.Now())
		require.True(t, r.isNews("a"))
		require.False(t, r.isNews("a"), "once a minute")
		require.True(t, r.isNews("b"))
		require.True(t, r.wait(t.Context(), "a", ask.Query, 100, 0), "queries have a rate of their own")
		time.Sleep(2 * time.Second)
		require.True(t, r.wait(t.Context(), "a", ask.Update, 100, 0))
	})
}

// The number of remembered names is bounded.
func TestRatesForget(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		r := newRates(ClientRates{Updates: 1000})
		for i := range 3 * maxRated {
			require.True(t, r.wait(t.Context(), fmt.Sprint(i), ask.Update, 100, 0))
			time.Sleep(time.Millisecond)
		}
		require.LessOrEqual(t, len(r.clients), maxRated)
		require.True(t, newRates(ClientRates{}).wait(t.Context(), "a", ask.Update, 100, 0), "without a bound")
	})
}

func BenchmarkRates(b *testing.B) {
	r := newRates(ClientRates{Updates: 1e9, Calls: 1e9})
	for b.Loop() {
		r.wait(b.Context(), "a", ask.Update, 100, 0)
	}
}

func BenchmarkRivals(b *testing.B) {
	r := newRates(ClientRates{})
	for b.Loop() {
		r.rivals.note("a", ask.Update, r.rivals.epoch)
		r.rivals.note("b", ask.Update, r.rivals.epoch)
	}
}
