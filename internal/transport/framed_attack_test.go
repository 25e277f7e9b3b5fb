package transport

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/identity"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/wire"
	"github.com/globalfs/globalfs/pkg/multicast"
	"github.com/globalfs/globalfs/test/bubble"
	"github.com/globalfs/globalfs/test/logged"
)

// framedTo opens a framed connection to the fortress, past the server's hello.
func (f *fortress) framedTo(config *tls.Config) (conn net.Conn, err error) {
	if f.shared {
		if conn, err = f.sharedTo(config); err != nil {
			return nil, err
		}
		return conn, helloOf(conn)
	}
	config.NextProtos = []string{framedProtocol}
	session := tls.Client(f.connect(), config)
	if err := session.Handshake(); err != nil {
		return nil, err
	}
	if err := helloOf(session); err != nil {
		return nil, err
	}
	return session, nil
}

// helloOf reads the server's hello.
func helloOf(conn net.Conn) error {
	var b [headSize]byte
	if _, err := io.ReadFull(conn, b[:]); err != nil {
		return err
	}
	h, err := parseHead(&b)
	if err != nil || h.kind != kindHello {
		return errors.Join(err, errors.New("no hello"))
	}
	_, err = io.CopyN(io.Discard, conn, int64(h.length))
	return err
}

// sharedTo opens a connection through shared memory.
func (f *fortress) sharedTo(config *tls.Config) (net.Conn, error) {
	config.NextProtos = []string{sharedProtocol}
	door := f.server.gate.shared
	raw, err := door.dial(f.t.Context(), door.name)
	if err != nil {
		return nil, err
	}
	f.t.Cleanup(func() { _ = raw.Close() })
	deadline := time.Now().Add(20 * time.Second)
	if err := raw.SetDeadline(deadline); err != nil {
		return nil, err
	}
	session := tls.Client(raw, config)
	if _, err := io.ReadFull(session, make([]byte, len(introduction(0, door.name)))); err != nil {
		return nil, err
	}
	if _, err := session.Write([]byte{shareGo}); err != nil {
		return nil, err
	}
	conn, err := door.accept(raw, deadline)
	if err != nil {
		return nil, err
	}
	f.t.Cleanup(func() { _ = conn.Close() })
	return conn, conn.SetDeadline(deadline)
}

// bothWays runs a test over TCP and through shared memory.
func bothWays(t *testing.T, test func(t *testing.T, shared bool)) {
	t.Run("TCP", func(t *testing.T) { test(t, false) })
	t.Run("SharedMemory", func(t *testing.T) { test(t, true) })
}

// message encodes one message.
func message(k kind, call uint64, body []byte) []byte {
	return append(appendHead(nil, k, call, len(body)), body...)
}

// lastWords reads until a connection ends, and returns the reason that the server sends.
func lastWords(t *testing.T, conn io.Reader) string {
	all, err := io.ReadAll(conn)
	require.NotErrorIs(t, err, os.ErrDeadlineExceeded, "the server waits")
	for len(all) >= headSize {
		h, err := parseHead((*[headSize]byte)(all))
		require.NoError(t, err)
		all = all[headSize:]
		if h.kind == kindBye {
			return string(all[:h.length])
		}
		all = all[h.length:]
	}
	return ""
}

func TestFramedStrangersAreRefused(t *testing.T) { bothWays(t, framedStrangersAreRefused) }

func framedStrangersAreRefused(t *testing.T, shared bool) {
	f := newFortressWith(t, limits{}, shared)
	rogue := newAuthority(t, "prod")
	for name, c := range map[string]*tls.Config{
		"no certificate":  showing(),
		"another CA":      showing(rogue.forge("globalfs://prod/server/n1", asIs)),
		"another cluster": showing(f.certs.forge("globalfs://test/server/n1", asIs)),
		"no role":         showing(f.certs.forge("globalfs://prod/root/n1", asIs)),
	} {
		before := f.calls.Load()
		conn, err := f.framedTo(c)
		require.Error(t, err, name)
		require.Nil(t, conn)
		require.Equal(t, before, f.calls.Load(), name)
		f.requireGood(name)
	}
}

// Garbage of clients with good certificates ends their connections with a reason, and nothing else.
func TestFramedGarbage(t *testing.T) { bothWays(t, framedGarbage) }

func framedGarbage(t *testing.T, shared bool) {
	f := newFortressWith(t, smallLimits(), shared)
	noise := bytes.Repeat([]byte{0xa5, 0x16, 0x03, 0x00, 0xff}, 5_000)
	call := message(kindCall, 1, []byte{7, 0})
	long := appendHead(nil, kindCall, 1, MaxCall+100)
	packet := &wire.Packet{From: 2, To: 1, Source: &wire.Generation{Incarnation: 1 << 40}}
	for name, a := range map[string]struct {
		data []byte
		says string
	}{
		"noise":                  {noise, "unknown kind"},
		"a message of 4 GiB":     {appendHead(nil, kindCall, 1, 1<<32-1), "the longest message has"},
		"a request too long":     {long, "the longest message has"},
		"an empty call":          {message(kindCall, 1, nil), "a call cannot be read"},
		"a call without end":     {message(kindCall, 1, bytes.Repeat([]byte{0xff}, 20)), "a call cannot be read"},
		"a time without end":     {message(kindCall, 1, binary.AppendUvarint([]byte{1}, 1<<63)), "a call cannot be read"},
		"a reply":                {message(kindReply, 1, nil), "kind 3"},
		"a hello":                {message(kindHello, 0, []byte{1}), "kind 1"},
		"packets":                {appendPackets(nil, &wire.Batch{Packets: []*wire.Packet{packet}}), "only servers have links"},
		"one number twice":       {join(message(kindCall, 9, []byte{0, 0}), message(kindCall, 9, []byte{0, 0})), "two calls under way have the number 9"},
		"a ping with a body":     {message(kindPing, 0, noise[:8]), "the longest message has 0"},
		"a cancel for nobody":    {join(message(kindCancel, 77, nil), call, message(kindHello, 0, nil)), "kind 1"},
		"its own bye":            {message(kindBye, 0, []byte("enough")), ""},
		"a bye that is too long": {appendHead(nil, kindBye, 0, 1<<20), "the longest message has"},
	} {
		f.server.control.mu.Lock()
		f.server.control.handler = func(ctx context.Context, _ []byte) ([]byte, error) { <-ctx.Done(); return nil, nil }
		f.server.control.mu.Unlock()
		conn, err := f.framedTo(f.certs.client("bad", posix.Everybody()).ClientConfig())
		require.NoError(t, err)
		_, _ = conn.Write(a.data)
		require.Contains(t, lastWords(t, conn), a.says, name)
		f.requireGood(name)
	}
	require.Eventually(t, func() bool {
		f.server.gate.mu.Lock()
		defer f.server.gate.mu.Unlock()
		return f.server.gate.accounts["client/bad"] == nil
	}, 30*time.Second, time.Millisecond, "all is given back")
}

// Servers may send any well-formed state of links, and nothing that is malformed.
func TestFramedWildPackets(t *testing.T) { bothWays(t, framedWildPackets) }

func framedWildPackets(t *testing.T, shared bool) {
	f := newFortressWith(t, limits{}, shared)
	good := &wire.Generation{Incarnation: 1 << 40}
	batch := func(p *wire.Packet) []byte { return appendPackets(nil, &wire.Batch{Packets: []*wire.Packet{p}}) }
	cut := batch(&wire.Packet{From: 4, To: 1, Source: good, First: 1, Frames: [][]byte{[]byte("frame")}})
	cut = message(kindPackets, 0, cut[headSize:len(cut)-2])
	for name, data := range map[string][]byte{
		"no incarnation": batch(&wire.Packet{From: 4, To: 1}),
		"cut":            cut,
		"many frames":    message(kindPackets, 0, binary.AppendUvarint([]byte{4, 1, 1, 1, 1, 1, 1, 1}, 1<<40)),
	} {
		conn, err := f.framedTo(f.certs.server("n3").ClientConfig())
		require.NoError(t, err)
		_, _ = conn.Write(data)
		require.NotEmpty(t, lastWords(t, conn), name)
		f.requireGood(name)
	}
}

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

// Neither a client nor another server sends anything to a peer that is not a server of the cluster, or to a
// peer without a certificate.
func TestFramedImpostors(t *testing.T) {
	certs := newAuthority(t, "prod")
	for name, c := range map[string]struct {
		serve       func(conn net.Conn)
		credentials *identity.Credentials
		says        string
	}{
		"no TLS": {func(conn net.Conn) { _, _ = io.WriteString(conn, "220 mail.example.org\r\n") }, certs.client("c", posix.Everybody()), "does not look like a TLS handshake"},
		"another protocol": {func(conn net.Conn) {
			config := showing(certs.forge("globalfs://prod/server/x", asIs))
			config.NextProtos = nil
			_ = tls.Server(conn, config).Handshake()
		}, certs.client("c", posix.Everybody()), "is the address that of a GlobalFS server"},
		"mail":   {func(conn net.Conn) { _, _ = io.WriteString(conn, "220 mail.example.org\r\n") }, nil, "does not speak " + framedProtocol},
		"closes": {func(net.Conn) {}, nil, "does it need certificates"},
		"a hello too long": {func(conn net.Conn) {
			_, _ = io.WriteString(conn, greeting)
			_, _ = conn.Write(appendHead(nil, kindHello, 0, 1<<20))
		}, nil, "the longest message has"},
		"two answers": {func(conn net.Conn) {
			_, _ = io.WriteString(conn, greeting)
			_, _ = conn.Write(join(message(kindHello, 0, []byte{9}), message(kindReply, 77, nil)))
		}, nil, "not under way"},
	} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		done := make(chan struct{})
		var connections atomic.Int64
		go func() {
			defer close(done)
			for {
				conn, err := l.Accept()
				if err != nil {
					return
				}
				connections.Add(1)
				if c.credentials == nil {
					_, _ = io.ReadFull(conn, make([]byte, len(greeting)))
				}
				c.serve(conn)
				time.AfterFunc(50*time.Millisecond, func() { _ = conn.Close() })
			}
		}()
		d := Dial(Config{Resolve: func(multicast.ProcessID) (string, bool) { return l.Addr().String(), true }, Credentials: c.credentials})
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		_, err = d.Call(ctx, 1, []byte("secret"))
		require.ErrorIs(t, err, ErrUnreachable, name)
		require.ErrorContains(t, err, c.says, name)
		require.Less(t, connections.Load(), int64(20), "%s: a peer that ends each connection is asked again and again", name)
		cancel()
		require.NoError(t, d.Close())
		require.NoError(t, l.Close())
		<-done
	}
}

// The log reports peers that should use TLS, or should not.
func TestWrongWayIn(t *testing.T) {
	certs := newAuthority(t, "prod")
	for name, c := range map[string]struct {
		server, client *identity.Credentials
		says           string
	}{
		"plain client": {certs.server("n1"), nil, "the peer does not use TLS"},
		"TLS client":   {nil, certs.client("c", posix.Everybody()), "the peer uses TLS, and this server has no certificates"},
	} {
		var log logged.Text
		s, err := Listen(Config{Address: "127.0.0.1:0", Credentials: c.server, Logger: log.Logger(), Resolve: func(multicast.ProcessID) (string, bool) { return "", false }})
		require.NoError(t, err)
		d := Dial(Config{Credentials: c.client})
		_, err = d.CallAddress(t.Context(), s.Address(), nil)
		require.ErrorIs(t, err, ErrUnreachable, name)
		require.Eventually(t, func() bool { return log.Has(c.says) }, 30*time.Second, time.Millisecond, name)
		require.NoError(t, d.Close())
		require.NoError(t, s.Close())
	}
}

// Peers use the old protocol with a server before its upgrade, and the new one after it, while they run.
func TestUpgradeOfAServer(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newTCPWorld(t, newAuthority(t, "prod").server("n1"), nil, nil, old)
		all := bootAll(t, w, 2)
		c := w.dial(w.credentials)
		w.servers[2].Control(echo)
		_, err := c.CallAddress(t.Context(), address(2), nil)
		require.NoError(t, err)
		require.Empty(t, sessionsOf(w.servers[2]))
		require.NoError(t, w.servers[2].Close())
		all[1].stop()
		w.protocols[2] = nil
		w.servers[2] = w.listen(2)
		w.servers[2].Control(echo)
		all[1] = boot(t, w, 2, 2)
		time.Sleep(2 * oldPeerTime)
		_, err = c.CallAddress(t.Context(), address(2), nil)
		require.NoError(t, err)
		require.NotEmpty(t, sessionsOf(w.servers[2]))
		require.NoError(t, all[0].send(2, 0))
		settle()
		requireInStep(t, all[0], all[1])
		require.NoError(t, c.Close())
		stopAll(all)
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
