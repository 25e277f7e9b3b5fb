package transport

import (
	"bufio"
	"context"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/pkg/multicast"
	"github.com/globalfs/globalfs/test/bubble"
)

// desk takes calls in, and answers on command of the test.
type desk struct {
	mu        sync.Mutex
	last      uint64
	waiting   map[uint64]Caller
	withdrawn int
	peers     map[string]int // calls by their callers' names
}

func newDesk() *desk { return &desk{waiting: map[uint64]Caller{}, peers: map[string]int{}} }

// Begin leaves requests that begin with h to the handler.
func (d *desk) Begin(ctx context.Context, request []byte, caller Caller) (uint64, bool) {
	if len(request) > 0 && request[0] == 'h' {
		return 0, false
	}
	d.mu.Lock()
	d.last++
	token := d.last
	if id, ok := PeerOf(ctx); ok {
		d.peers[id.Name]++
	}
	if string(request) != "now" {
		d.waiting[token] = caller
	}
	d.mu.Unlock()
	if string(request) == "now" {
		caller.Answer([]byte("at once"), nil)
	}
	return token, true
}

func (d *desk) Withdraw(token uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.waiting[token] != nil {
		delete(d.waiting, token)
		d.withdrawn++
	}
}

// answer answers all waiting calls.
func (d *desk) answer(reply []byte, err error) (n int) {
	d.mu.Lock()
	all := d.waiting
	d.waiting = map[uint64]Caller{}
	d.mu.Unlock()
	for _, c := range all {
		c.Answer(reply, err)
	}
	return len(all)
}

func (d *desk) size() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.waiting)
}

// at puts a desk and a handler at process 1 of a world.
func (d *desk) at(w *tcpWorld) Endpoint {
	e := w.endpoint(1)
	e.ServeLater(d)
	e.Serve(echo)
	return e
}

// requireIdle checks that nothing is under way at the server of process 1.
func requireIdle(t *testing.T, w *tcpWorld) {
	t.Helper()
	for _, s := range sessionsOf(w.servers[1]) {
		require.Empty(t, s.slots)
		require.Empty(t, s.cancels)
		require.Empty(t, s.begun)
	}
}

func TestAnswersWithoutAGoroutine(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newTCPWorld(t, newAuthority(t, "prod").server("n1"))
		d := newDesk()
		d.at(w)
		c := w.dial(w.credentials)
		reply, err := c.Call(t.Context(), 1, []byte("now"))
		require.NoError(t, err)
		require.Equal(t, "at once", string(reply))
		reply, err = c.Call(t.Context(), 1, []byte("handler"))
		require.NoError(t, err)
		require.Equal(t, "echo handler", string(reply))
		require.Equal(t, map[string]int{"n1": 1}, d.peers)

		var calls sync.WaitGroup
		for _, want := range []error{nil, io.ErrUnexpectedEOF} {
			for range 100 {
				calls.Go(func() {
					reply, err := c.Call(t.Context(), 1, []byte("later"))
					if want == nil {
						require.NoError(t, err)
						require.Len(t, reply, 100_000)
						return
					}
					var remote *RemoteError
					require.ErrorAs(t, err, &remote)
					require.Equal(t, want.Error(), remote.Text)
				})
			}
			synctest.Wait()
			require.Equal(t, 100, d.answer(make([]byte, 100_000), want))
			calls.Wait()
		}
		synctest.Wait()
		requireIdle(t, w)
		require.NoError(t, c.Close())
		w.close()
	})
}

// A call ends exactly once: by its answer, by its caller, or with the connection.
func TestCallsThatWaitEndOnce(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newTCPWorld(t, newAuthority(t, "prod").server("n1"))
		d := newDesk()
		e := d.at(w)
		c := w.dial(w.credentials)
		var calls sync.WaitGroup
		var answered, failed atomic.Int64
		for range 500 {
			calls.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(1+rand.IntN(30))*time.Millisecond)
				defer cancel()
				if _, err := c.Call(ctx, 1, []byte("later")); err == nil {
					answered.Add(1)
				} else {
					failed.Add(1)
				}
			})
		}
		for range 30 {
			time.Sleep(time.Millisecond)
			d.answer(make([]byte, rand.IntN(40_000)), nil)
		}
		calls.Wait()
		require.EqualValues(t, 500, answered.Load()+failed.Load())
		require.Positive(t, answered.Load())
		time.Sleep(time.Second)
		synctest.Wait()
		require.Zero(t, d.size())
		requireIdle(t, w)

		calls.Go(func() {
			_, err := c.Call(t.Context(), 1, []byte("later"))
			require.ErrorIs(t, err, ErrUnreachable)
		})
		synctest.Wait()
		require.Equal(t, 1, d.size())
		w.disturb()
		calls.Wait()
		synctest.Wait()
		require.Zero(t, d.size(), "nobody waits any more")

		calls.Go(func() {
			_, err := c.Call(t.Context(), 1, []byte("later"))
			require.ErrorIs(t, err, ErrUnreachable)
		})
		time.Sleep(10 * time.Second) // the connection is made again
		synctest.Wait()
		require.Equal(t, 1, d.size())
		require.NoError(t, e.Close())
		d.answer(nil, io.ErrClosedPipe) // like a replica that stops
		calls.Wait()
		require.NoError(t, c.Close())
		w.close()
	})
}

// The deadline of a call holds also if its caller sends nothing more.
func TestDeadlinesWithoutAGoroutine(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newTCPWorld(t, nil)
		d := newDesk()
		d.at(w)
		conn, err := w.pipes.dial(t.Context(), address(1))
		require.NoError(t, err)
		_, err = io.WriteString(conn, greeting)
		require.NoError(t, err)
		for i, limit := range []time.Duration{5 * time.Second, time.Second, 0, 3 * time.Second} {
			_, err = conn.Write(append(callStart(nil, uint64(i+1), 1, limit, []byte("later")), "later"...))
			require.NoError(t, err)
		}
		began := time.Now()
		hello := len(message(kindHello, 0, []byte{0, 0}))
		_, err = io.ReadFull(conn, make([]byte, len(greeting)+hello))
		require.NoError(t, err)
		for _, want := range []struct {
			call uint64
			at   time.Duration
		}{{2, time.Second}, {4, 3 * time.Second}, {1, 5 * time.Second}} {
			var b [headSize]byte
			_, err = io.ReadFull(conn, b[:])
			require.NoError(t, err)
			h, err := parseHead(&b)
			require.NoError(t, err)
			require.Equal(t, head{0, kindLate, want.call}, h)
			require.Equal(t, want.at, time.Since(began))
		}
		require.Equal(t, 1, d.size(), "without a limit")
		require.Equal(t, 3, d.withdrawn)
		require.NoError(t, conn.Close())
		synctest.Wait()
		require.Zero(t, d.size())
		w.close()
	})
}

// slowDesk needs a long time to take a call in.
type slowDesk struct{ *desk }

func (d slowDesk) Begin(ctx context.Context, request []byte, caller Caller) (uint64, bool) {
	time.Sleep(time.Minute)
	return d.desk.Begin(ctx, request, caller)
}

// A connection stays open at both ends while its reader is busy with a long turn.
func TestALongTurnIsNotSilence(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newTCPWorld(t, newAuthority(t, "prod").server("n1"))
		e := w.endpoint(1)
		e.ServeLater(slowDesk{newDesk()})
		e.Serve(echo)
		c := w.dial(w.credentials)
		reply, err := c.Call(t.Context(), 1, []byte("now"))
		require.NoError(t, err)
		require.Equal(t, "at once", string(reply))
		require.NoError(t, c.Close())
		w.close()
	})
}

// A peer that does not read its answers delays no other peer, and gets no more calls than the limit of its
// connection.
func TestAnswersWaitForNobody(t *testing.T) {
	s, err := Listen(Config{Address: "127.0.0.1:0", Resolve: func(multicast.ProcessID) (string, bool) { return "", false }})
	require.NoError(t, err)
	defer s.Close()
	d := newDesk()
	e := s.Endpoint(1)
	e.ServeLater(d)
	e.Serve(echo)
	conn, err := net.Dial("tcp", s.Address())
	require.NoError(t, err)
	defer conn.Close()
	const calls, length = 4 * maxCalls, 15_000
	go func() {
		b := []byte(greeting)
		for i := range calls {
			b = append(callStart(b, uint64(i+1), 1, 0, []byte("later")), "later"...)
		}
		_, _ = conn.Write(b)
	}()
	full := func() bool {
		d.answer(make([]byte, length), nil)
		all := sessionsOf(s)
		return len(all) == 1 && len(all[0].slots) == maxCalls && d.size() == 0
	}
	require.Eventually(t, full, time.Minute, time.Millisecond)
	d.mu.Lock()
	require.Less(t, d.last, uint64(calls), "the others wait")
	d.mu.Unlock()

	answered := map[uint64]bool{}
	in := bufio.NewReader(conn)
	_, err = io.CopyN(io.Discard, in, int64(len(greeting)))
	require.NoError(t, err)
	for len(answered) < calls {
		d.answer(make([]byte, length), nil)
		require.NoError(t, conn.SetReadDeadline(time.Now().Add(time.Minute)))
		if in.Buffered() == 0 && len(answered) > 0 { // more may have begun since
			require.Eventually(t, func() bool {
				d.answer(make([]byte, length), nil)
				_ = conn.SetReadDeadline(time.Now().Add(time.Millisecond))
				_, err := in.Peek(1)
				return err == nil
			}, time.Minute, time.Millisecond)
			require.NoError(t, conn.SetReadDeadline(time.Now().Add(time.Minute)))
		}
		var b [headSize]byte
		_, err = io.ReadFull(in, b[:])
		require.NoError(t, err)
		h, err := parseHead(&b)
		require.NoError(t, err)
		_, err = io.CopyN(io.Discard, in, int64(h.length))
		require.NoError(t, err)
		if h.kind == kindReply {
			require.Equal(t, length, h.length)
			require.False(t, answered[h.call], "once")
			answered[h.call] = true
		}
	}
	require.Eventually(t, func() bool { return len(sessionsOf(s)[0].slots) == 0 }, time.Minute, time.Millisecond)
}
