package transport

import (
	"bufio"
	"context"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/posix"
)

// The limits of one peer: memory, replies, calls.

// A client that sends parts of requests and never ends them, or does not read replies, costs at most the
// limits.
func TestFramedHalfCallsAreBounded(t *testing.T) { bothWays(t, framedHalfCallsAreBounded) }

func framedHalfCallsAreBounded(t *testing.T, shared bool) {
	l := smallLimits()
	f := newFortressWith(t, l, shared)
	before := heapNow()
	for range l.perClient {
		conn, err := f.framedTo(f.certs.client("bad", posix.Everybody()).ClientConfig())
		require.NoError(t, err)
		for i := range uint64(100) { // the server echoes, and nobody reads
			if _, err := conn.Write(message(kindCall, i, []byte{1, 0, 'x'})); err != nil {
				break
			}
		}
		_, _ = conn.Write(join(appendHead(nil, kindCall, 1<<32, MaxCall), make([]byte, 1<<20)))
	}
	f.requireGood("under half calls")
	require.Less(t, heapNow()-before, l.bytes+48<<20)
	f.requireUnderWay(f.certs.client("bad", posix.Everybody()), l)
}

// Long replies that a client does not take do not pile up at the server.
func TestFramedLongRepliesAreBounded(t *testing.T) { bothWays(t, framedLongRepliesAreBounded) }

func framedLongRepliesAreBounded(t *testing.T, shared bool) {
	f := newFortressWith(t, limits{}, shared)
	var handled atomic.Int64
	f.server.Control(func(context.Context, []byte) ([]byte, error) {
		handled.Add(1)
		return make([]byte, 1<<20), nil
	})
	before := heapNow()
	for range 2 {
		conn, err := f.framedTo(f.certs.client("bad", posix.Everybody()).ClientConfig())
		require.NoError(t, err)
		for i := range uint64(200) {
			_, err := conn.Write(message(kindCall, i, []byte{0, 0, 'x'}))
			require.NoError(t, err)
		}
	}
	require.Eventually(t, func() bool { return handled.Load() == 400 }, time.Minute, time.Millisecond)
	require.Less(t, heapNow()-before, int64(maxReplies+64<<20))
	f.requireGood("under replies that nobody reads")
}

// Replies that are refused hold no memory while their refusals wait for a client that takes nothing.
func TestFramedRefusedRepliesHoldNothing(t *testing.T) { bothWays(t, framedRefusedRepliesHoldNothing) }

func framedRefusedRepliesHoldNothing(t *testing.T, shared bool) {
	l := defaultLimits()
	l.callsPerSecond = 1 << 20
	f := newFortressWith(t, l, shared)
	one, fresh := make([]byte, 1<<20), atomic.Int64{}
	f.server.Control(func(context.Context, []byte) ([]byte, error) {
		if all := sessionsFrom(f.server, "bad"); len(all) == 1 && all[0].queued() < maxQueued {
			return one, nil
		}
		fresh.Add(1)
		return make([]byte, 1<<20), nil
	})
	before := heapNow()
	full := func() bool {
		all := sessionsFrom(f.server, "bad")
		return len(all) == 1 && len(all[0].slots) == maxClientCalls && fresh.Load() > 100
	}
	// A connection may stop before so many replies were refused: the server does not read it while its queue
	// is full. Then another one is tried.
	for reached := false; !reached; {
		fresh.Store(0)
		conn, err := f.framedTo(f.certs.client("bad", posix.Everybody()).ClientConfig())
		require.NoError(t, err)
		go func() { // ends when the connection does
			for i := uint64(0); ; i++ {
				if _, err := conn.Write(message(kindCall, i, []byte{0, 0, 'x'})); err != nil {
					return
				}
			}
		}()
		for began := time.Now(); !reached && time.Since(began) < 5*time.Second; time.Sleep(time.Millisecond) {
			reached = full()
		}
		if reached {
			require.Eventually(t, func() bool { return heapNow()-before < 64<<20 }, 5*time.Second, 10*time.Millisecond)
		}
		require.NoError(t, conn.Close())
		require.Eventually(t, func() bool { return len(sessionsFrom(f.server, "bad")) == 0 }, 15*time.Second, time.Millisecond)
	}
}

// sessionsFrom returns the connections of a client at a server.
func sessionsFrom(s *Server, name string) []*session {
	return slices.DeleteFunc(sessionsOf(s), func(c *session) bool { return c.info.identity.Name != name })
}

// queued returns the number of bytes of small messages that wait.
func (c *framedConn) queued() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.queue)
}

// Calls that are refused, because too many are under way, count in the rate of the client.
func TestFramedRefusedCallsHaveARate(t *testing.T) { bothWays(t, framedRefusedCallsHaveARate) }

func framedRefusedCallsHaveARate(t *testing.T, shared bool) {
	l := smallLimits()
	l.callsPerSecond = 50
	f := newFortressWith(t, l, shared)
	f.server.Control(func(ctx context.Context, _ []byte) ([]byte, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	})
	conn, err := f.framedTo(f.certs.client("bad", posix.Everybody()).ClientConfig())
	require.NoError(t, err)
	var written atomic.Int64
	go func() {
		for i := uint64(0); ; i++ {
			if _, err := conn.Write(message(kindCall, i, []byte{0, 0, 'x'})); err != nil {
				return
			}
			written.Add(1)
		}
	}()
	in := bufio.NewReader(conn)
	refused := 0
	for end := time.Now().Add(time.Second); time.Now().Before(end); {
		require.NoError(t, conn.SetReadDeadline(end))
		var b [headSize]byte
		if _, err := io.ReadFull(in, b[:]); err != nil {
			break
		}
		h, err := parseHead(&b)
		require.NoError(t, err)
		_, err = in.Discard(h.length)
		require.NoError(t, err)
		if h.kind == kindRefused {
			refused++
		}
	}
	require.Positive(t, refused)
	require.Less(t, refused, 4*l.callsPerSecond)
	require.Greater(t, written.Load(), int64(4*l.callsPerSecond), "there was more to refuse")
	require.NoError(t, conn.Close())
}

// A flood of large calls is answered a few at a time; other clients do not wait, and the excess stays with
// its sender.
func TestFramedFloodOfCalls(t *testing.T) { bothWays(t, framedFloodOfCalls) }

func framedFloodOfCalls(t *testing.T, shared bool) {
	l := smallLimits()
	f := newFortressWith(t, l, shared)
	release := make(chan struct{})
	var running, most atomic.Int64
	f.server.Control(func(ctx context.Context, _ []byte) ([]byte, error) {
		n := running.Add(1)
		defer running.Add(-1)
		for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
		}
		select {
		case <-release:
		case <-ctx.Done():
		}
		return nil, nil
	})
	cfg := f.client.pool.cfg
	cfg.Credentials = f.certs.client("bad", posix.Everybody())
	bad := Dial(cfg)
	request := make([]byte, MaxCall)
	var flood sync.WaitGroup
	for range l.calls {
		flood.Go(func() {
			_, err := bad.CallAddress(t.Context(), f.server.Address(), request)
			require.NoError(t, err)
		})
	}
	require.Eventually(t, func() bool { return running.Load() == l.bytes/MaxCall-1 || running.Load() == l.bytes/MaxCall }, 30*time.Second, time.Millisecond)
	f.requireGood("under a flood of calls")
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	_, err := bad.CallAddress(ctx, f.server.Address(), request)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	cancel()
	close(release)
	flood.Wait()
	require.LessOrEqual(t, most.Load(), l.bytes/MaxCall, "as many as the bytes allow")
	_, err = bad.CallAddress(t.Context(), f.server.Address(), request)
	require.NoError(t, err, "all is given back")
	require.NoError(t, bad.Close())
}

// The calls of a client beyond its limit are refused, and the connection goes on.
func TestFramedCallsBeyondTheLimit(t *testing.T) { bothWays(t, framedCallsBeyondTheLimit) }

func framedCallsBeyondTheLimit(t *testing.T, shared bool) {
	l := smallLimits()
	f := newFortressWith(t, l, shared)
	f.server.Control(func(ctx context.Context, _ []byte) ([]byte, error) { <-ctx.Done(); return nil, nil })
	conn, err := f.framedTo(f.certs.client("bad", posix.Everybody()).ClientConfig())
	require.NoError(t, err)
	for i := range uint64(l.calls) {
		_, err := conn.Write(message(kindCall, i, []byte{0, 0, 'x'}))
		require.NoError(t, err)
	}
	_, err = conn.Write(message(kindCall, 99, []byte{1, 0, 'x'}))
	require.NoError(t, err)
	var b [headSize]byte
	_, err = io.ReadFull(conn, b[:])
	require.NoError(t, err)
	h, err := parseHead(&b)
	require.NoError(t, err)
	require.Equal(t, head{h.length, kindRefused, 99}, h)
	text := make([]byte, h.length)
	_, err = io.ReadFull(conn, text)
	require.NoError(t, err)
	require.Contains(t, string(text), "has 32 calls under way here, more are refused")
	_, err = conn.Write(join(message(kindCancel, 5, nil)))
	require.NoError(t, err)
	_, err = io.ReadFull(conn, b[:])
	require.NoError(t, err)
	h, err = parseHead(&b)
	require.NoError(t, err)
	require.Equal(t, head{0, kindLate, 5}, h, "a call that is withdrawn is answered, too")
	f.requireGood("with many calls")
}
