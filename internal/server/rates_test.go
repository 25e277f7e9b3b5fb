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
