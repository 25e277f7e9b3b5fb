package transport

import (
	"context"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/test/bubble"
)

// Time limits of framed connections and calls.

// Timers detect peers that fall silent, take nothing, or never end a message, and only those.
func TestFramedTimers(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newTCPWorld(t, nil)
		w.servers[0].Control(func(context.Context, []byte) ([]byte, error) { return make([]byte, 1<<20), nil })
		open := func() net.Conn {
			conn, err := w.pipes.dial(t.Context(), address(0))
			require.NoError(t, err)
			_, err = io.WriteString(conn, greeting)
			require.NoError(t, err)
			return conn
		}
		pings := func(conn net.Conn) {
			for range 1000 {
				if _, err := conn.Write(message(kindPong, 0, nil)); err != nil {
					return
				}
				time.Sleep(time.Second)
			}
		}
		began := time.Now()
		silent := open()
		_, err := io.ReadAll(silent)
		require.NoError(t, err)
		require.GreaterOrEqual(t, time.Since(began), quietTime, "a silent peer")
		require.Less(t, time.Since(began), quietTime+4*probeTime, "a silent peer")

		began = time.Now()
		deaf := open()
		go pings(deaf)
		_, err = deaf.Write(message(kindCall, 1, []byte{0, 0}))
		require.NoError(t, err)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			for len(sessionsOf(w.servers[0])) > 0 {
				time.Sleep(time.Second)
			}
		}()
		<-ended
		require.Less(t, time.Since(began), 30*time.Second, "a deaf peer")

		began = time.Now()
		slow := open()
		go func() { _, _ = io.Copy(io.Discard, slow) }()
		_, err = slow.Write(appendHead(nil, kindCall, 1, 1000))
		require.NoError(t, err)
		for i := 0; ; i++ {
			if _, err := slow.Write([]byte{0}); err != nil {
				break
			}
			time.Sleep(time.Second)
		}
		// The tick after slowTicks breaks the connection, the first tick comes up to probeTime late, and the
		// write after the break fails.
		taken := time.Since(began)
		require.GreaterOrEqual(t, taken, slowTicks*probeTime, "a message that does not end")
		require.Less(t, taken, (slowTicks+4)*probeTime, "a message that does not end")

		c := w.dial(nil)
		_, err = c.CallAddress(t.Context(), address(0), nil)
		require.NoError(t, err)
		time.Sleep(20 * time.Minute)
		require.Len(t, sessionsOf(w.servers[0]), 1, "a peer that answers pings")
		time.Sleep(20 * time.Minute)
		require.Empty(t, sessionsOf(w.servers[0]), "a connection that nobody uses")
		_, err = c.CallAddress(t.Context(), address(0), nil)
		require.NoError(t, err)
		require.NoError(t, c.Close())
		synctest.Wait()
		w.close()
	})
}

func sessionsOf(s *Server) (all []*session) {
	s.framed.mu.Lock()
	defer s.framed.mu.Unlock()
	for c := range s.framed.sessions {
		all = append(all, c)
	}
	return all
}

// A caller that withdraws a call ends the handler's context at once, also while large requests are on their
// way.
func TestFramedWithdrawal(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newTCPWorld(t, newAuthority(t, "prod").server("n1"))
		var under, ended atomic.Int64
		w.endpoint(1).Serve(func(ctx context.Context, request []byte) ([]byte, error) {
			under.Add(1)
			<-ctx.Done()
			ended.Add(1)
			return make([]byte, 1<<20), nil
		})
		c := w.dial(w.credentials)
		var calls sync.WaitGroup
		for i := range 400 {
			calls.Go(func() {
				ctx, cancel := context.WithCancel(t.Context())
				time.AfterFunc(time.Duration(i%20)*time.Millisecond, cancel)
				_, err := c.Call(ctx, 1, make([]byte, i%4*50_000))
				require.ErrorIs(t, err, context.Canceled)
			})
		}
		calls.Wait()
		time.Sleep(time.Second)
		synctest.Wait()
		require.Equal(t, under.Load(), ended.Load())
		for _, s := range sessionsOf(w.servers[1]) {
			require.Empty(t, s.slots)
			require.Empty(t, s.cancels)
		}
		require.NoError(t, c.Close())
		w.close()
	})
}

// A server that does not answer at all delays the first call, and not the later ones.
func TestCallsToABlackHole(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := Dial(Config{dial: func(ctx context.Context, _ string) (net.Conn, error) { <-ctx.Done(); return nil, ctx.Err() }})
		for i := range 20 {
			began := time.Now()
			_, err := c.CallAddress(t.Context(), address(0), nil)
			require.ErrorIs(t, err, ErrUnreachable)
			require.ErrorContains(t, err, "no GlobalFS server has answered within 5s")
			if i == 0 {
				require.Equal(t, probeTime, time.Since(began))
			} else {
				require.Zero(t, time.Since(began))
			}
			time.Sleep(time.Second)
		}
		require.NoError(t, c.Close())
	})
}
