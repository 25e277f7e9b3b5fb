package transport

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"io"
	"net"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"

	"github.com/globalfs/globalfs/internal/identity"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/wire"
	"github.com/globalfs/globalfs/pkg/multicast"
	"github.com/globalfs/globalfs/test/bubble"
)

func smallLimits() limits {
	return limits{
		handshakes: 16, handshake: time.Second, connections: 24, perClient: 4,
		calls: 32, bytes: 4 * MaxCall, callsPerSecond: 100_000,
	}
}

// connect opens a connection to the fortress that ends with the test.
func (f *fortress) connect() net.Conn {
	conn, err := net.Dial("tcp", f.server.Address())
	require.NoError(f.t, err)
	f.t.Cleanup(func() { _ = conn.Close() })
	require.NoError(f.t, conn.SetDeadline(time.Now().Add(20*time.Second)))
	return conn
}

// requireClosed checks that the server closes the connection.
func (f *fortress) requireClosed(conn net.Conn) {
	f.t.Helper()
	_, err := io.Copy(io.Discard, conn)
	require.NotErrorIs(f.t, err, os.ErrDeadlineExceeded)
}

// Any number of silent connections does not prevent other connections. Silent connections are closed after a
// time.
func TestSilentConnections(t *testing.T) {
	f := newFortress(t, smallLimits())
	var all []net.Conn
	for range 200 {
		all = append(all, f.connect())
	}
	pending, _ := f.counts()
	require.LessOrEqual(t, pending, smallLimits().handshakes)
	f.requireGood("under silent connections")
	for _, conn := range all {
		f.requireClosed(conn)
	}
	require.Eventually(t, func() bool { pending, _ := f.counts(); return pending == 0 }, 30*time.Second, time.Millisecond)
}

// counts returns the number of connections with unknown peers, and of connections of clients.
func (f *fortress) counts() (pending, guests int) {
	g := f.server.gate
	g.mu.Lock()
	defer g.mu.Unlock()
	g.guests.mu.Lock()
	defer g.guests.mu.Unlock()
	return len(g.pending), g.guests.clients
}

// A handshake of one byte at a time has no more time than others.
func TestSlowHandshake(t *testing.T) {
	f := newFortress(t, smallLimits())
	conn := f.connect()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = io.Copy(io.Discard, conn)
	}()
	began := time.Now()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	hello := []byte{22, 3, 1, 2, 0} // a record of 512 bytes
	for open := true; open; {
		_, _ = conn.Write(hello[:1])
		hello = append(hello[1:], 0)
		select {
		case <-tick.C:
		case <-ended:
			open = false
		}
	}
	require.Less(t, time.Since(began), 10*time.Second)
	f.requireGood("after a slow handshake")
}

// guestOf makes a handshake, and reports whether the connection is let in.
func (f *fortress) guestOf(c *identity.Credentials) (conn *tls.Conn, in bool) {
	config := c.ClientConfig()
	config.NextProtos = []string{protocol}
	conn = tls.Client(f.connect(), config)
	require.NoError(f.t, conn.Handshake())
	_, err := conn.Write(join([]byte(preface), wireFrame(4, 0, 0, nil)))
	if err == nil {
		_, err = io.ReadFull(conn, make([]byte, 9)) // the server's settings
	}
	return conn, err == nil
}

// The connections of one client, and of all clients, are limited; servers are let in nevertheless.
func TestConnectionLimits(t *testing.T) {
	l := smallLimits()
	f := newFortress(t, l)
	bad := f.certs.client("bad", posix.Everybody())
	var open []*tls.Conn
	for range 3 * l.perClient {
		if conn, in := f.guestOf(bad); in {
			open = append(open, conn)
		}
	}
	require.Len(t, open, l.perClient)
	f.requireGood("with many connections of one client")
	require.NoError(t, open[0].Close())
	require.Eventually(t, func() bool { _, in := f.guestOf(bad); return in }, 30*time.Second, 10*time.Millisecond, "there is room for one")

	for i := range l.connections {
		for range 2 {
			f.guestOf(f.certs.client("bad"+string(rune('a'+i)), posix.Everybody()))
		}
	}
	_, guests := f.counts()
	require.Equal(t, l.connections, guests)
	_, in := f.guestOf(f.certs.client("late", posix.Everybody()))
	require.False(t, in)
	_, in = f.guestOf(f.certs.server("n3"))
	require.True(t, in)
	require.NoError(t, f.friend.send(1, 10))
}

// halfCalls opens n calls on one connection, each with a request that is sent except for its end, whatever
// the windows are.
func halfCalls(conn io.Writer, n int) error {
	if _, err := conn.Write(join([]byte(preface), wireFrame(4, 0, 0, nil))); err != nil {
		return err
	}
	chunk := make([]byte, 16<<10)
	for i := range n {
		stream := uint32(2*i + 1)
		head := callHead()
		binary.BigEndian.PutUint32(head[5:], stream)
		if _, err := conn.Write(head); err != nil {
			return err
		}
		first := wireFrame(0, 0, stream, append(binary.BigEndian.AppendUint32([]byte{0}, MaxCall), chunk[:len(chunk)-5]...))
		rest := wireFrame(0, 0, stream, chunk)
		for sent := len(chunk); sent < MaxCall; sent += len(chunk) {
			frame := rest
			if sent == len(chunk) {
				frame = first
			}
			if _, err := conn.Write(frame); err != nil {
				return err
			}
		}
	}
	return nil
}

// A client that sends parts of requests and never ends them costs at most the limits.
func TestHalfCallsAreBounded(t *testing.T) {
	l := smallLimits()
	f := newFortress(t, l)
	bad := f.certs.client("bad", posix.Everybody())
	before := heapNow()
	var peak atomic.Int64
	var sending sync.WaitGroup
	for range l.perClient {
		config := bad.ClientConfig()
		config.NextProtos = []string{protocol}
		conn := tls.Client(f.connect(), config)
		require.NoError(t, conn.Handshake())
		sending.Go(func() { _, _ = io.Copy(io.Discard, conn) })
		sending.Go(func() {
			defer func() { _ = conn.Close() }()
			_ = halfCalls(conn, maxClientCalls/4)
			peak.Store(max(peak.Load(), heapNow()-before))
			f.requireUnderWay(bad, l)
		})
	}
	sending.Wait()
	t.Logf("%d MiB at most", peak.Load()>>20)
	// The bound: 32 windows, four requests being read, and other allocations of both; without bounds there
	// are 256 windows.
	require.Less(t, peak.Load(), l.calls*clientWindow+l.bytes+48<<20)
	require.Eventually(t, func() bool {
		f.server.gate.guests.mu.Lock()
		defer f.server.gate.guests.mu.Unlock()
		return f.server.gate.guests.accounts["client/bad"] == nil
	}, 30*time.Second, time.Millisecond)
	f.requireGood("after half calls")
}

func (f *fortress) requireUnderWay(c *identity.Credentials, l limits) {
	f.server.gate.guests.mu.Lock()
	defer f.server.gate.guests.mu.Unlock()
	if a := f.server.gate.guests.accounts["client/"+c.Identity().Name]; a != nil && a.open.Load() > l.calls {
		f.t.Errorf("%d calls are under way", a.open.Load())
	}
}

func heapNow() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// A flood of large calls is answered a few at a time; other clients do not wait, and the calls beyond the
// limit are refused.
func TestFloodOfCalls(t *testing.T) {
	l := smallLimits()
	f := newFortress(t, l)
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
	bad := f.attacker(credentials.NewTLS(f.certs.client("bad", posix.Everybody()).ClientConfig()))
	request := &wire.CallRequest{Request: make([]byte, MaxCall)}
	var flood sync.WaitGroup
	var answered, refused atomic.Int64
	for range 2 * l.calls {
		flood.Go(func() {
			_, err := bad.Call(t.Context(), request)
			switch status.Code(err) {
			case codes.OK:
				answered.Add(1)
			case codes.ResourceExhausted:
				refused.Add(1)
			default:
				t.Error(err)
			}
		})
	}
	require.Eventually(t, func() bool { return refused.Load() >= l.calls && running.Load() == 4 }, 30*time.Second, time.Millisecond)
	f.requireGood("under a flood of calls")
	close(release)
	flood.Wait()
	require.Equal(t, l.bytes/MaxCall, most.Load(), "as many as the bytes allow")
	require.Equal(t, l.calls, answered.Load())
	require.Equal(t, l.calls, refused.Load())
	_, err := bad.Call(t.Context(), request)
	require.NoError(t, err, "all is given back")
}

// The excess requests of a client wait, until their deadline.
func TestCallsWaitForTheirTurn(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		certs := newAuthority(t, "prod")
		w := newTCPWorld(t, certs.server("n1"))
		for _, s := range w.servers {
			s.gate.limits = smallLimits()
		}
		c := w.dial(certs.client("c", posix.Everybody()))
		release := make(chan struct{})
		w.endpoint(1).Serve(func(_ context.Context, request []byte) ([]byte, error) {
			if len(request) > 0 {
				<-release
			}
			return nil, nil
		})
		var calls sync.WaitGroup
		for range 4 {
			calls.Go(func() {
				_, err := c.Call(t.Context(), 1, make([]byte, MaxCall))
				require.NoError(t, err)
			})
		}
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		_, err := c.Call(ctx, 1, nil)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, time.Second, time.Since(began))
		calls.Go(func() {
			_, err := c.Call(t.Context(), 1, nil)
			require.NoError(t, err)
		})
		synctest.Wait()
		close(release)
		calls.Wait()
		require.NoError(t, c.Close())
		w.close()
	})
}

// A client that reconnects for each call has no more calls than a client that stays. Its account is deleted
// in the end.
func TestReconnectingKeepsTheAccount(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		certs := newAuthority(t, "prod")
		w := newTCPWorld(t, certs.server("n1"))
		s, err := Listen(Config{Address: address(7), Credentials: w.credentials, CallsPerSecond: 100, Resolve: w.resolve, listen: w.pipes.listen, dial: w.pipes.dial})
		require.NoError(t, err)
		s.Endpoint(1).Serve(echo)
		w.move(1, address(7))
		began := time.Now()
		for range 40 {
			c := w.dial(certs.client("c", posix.Everybody()))
			for range 10 {
				_, err := c.Call(t.Context(), 1, nil)
				require.NoError(t, err)
			}
			require.NoError(t, c.Close())
		}
		require.GreaterOrEqual(t, time.Since(began), 2*time.Second, "400 calls, of which 100 are free, 100 a second")
		has := func() bool {
			s.gate.guests.mu.Lock()
			defer s.gate.guests.mu.Unlock()
			return len(s.gate.guests.accounts) > 0
		}
		require.True(t, has())
		require.Eventually(t, func() bool { return !has() }, time.Minute, time.Second)
		require.NoError(t, s.Close())
		w.close()
	})
}

func TestCallsPerSecond(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		certs := newAuthority(t, "prod")
		w := newTCPWorld(t, certs.server("n1"))
		var seconds = map[string]time.Duration{}
		s, err := Listen(Config{Address: address(7), Credentials: w.credentials, CallsPerSecond: 100, Resolve: w.resolve, listen: w.pipes.listen, dial: w.pipes.dial})
		require.NoError(t, err)
		s.Endpoint(1).Serve(echo)
		w.move(1, address(7))
		for name, credentials := range map[string]*identity.Credentials{
			"client": certs.client("c", posix.Everybody()), "admin": certs.admin("a"), "server": certs.server("n2"),
		} {
			c := w.dial(credentials)
			began := time.Now()
			for range 400 {
				_, err := c.Call(t.Context(), 1, nil)
				require.NoError(t, err)
			}
			seconds[name] = time.Since(began).Round(time.Second)
			if name == "client" {
				ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
				_, err := c.Call(ctx, 1, nil)
				require.ErrorIs(t, err, context.DeadlineExceeded)
				cancel()
			}
			require.NoError(t, c.Close())
		}
		require.Equal(t, map[string]time.Duration{"client": 3 * time.Second, "admin": 0, "server": 0}, seconds)
		require.NoError(t, s.Close())
		w.close()
	})
}

// A connection ends when the certificate that opened it expires.
func TestConnectionsEndWithTheirCertificate(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		certs := newAuthority(t, "prod")
		w := newTCPWorld(t, certs.server("n1"))
		w.endpoint(1).Serve(echo)
		short, long := w.dial(certs.short("short", 10*time.Minute)), w.dial(certs.client("long", posix.Everybody()))
		for _, c := range []*Client{short, long} {
			_, err := c.Call(t.Context(), 1, nil)
			require.NoError(t, err)
		}
		time.Sleep(10*time.Minute + time.Second) // gRPC itself closes connections only after half an hour without calls
		_, err := short.Call(t.Context(), 1, nil)
		require.ErrorIs(t, err, ErrUnreachable)
		_, err = long.Call(t.Context(), 1, nil)
		require.NoError(t, err)
		require.NoError(t, short.Close())
		require.NoError(t, long.Close())
		w.close()
	})
}

// Packets recorded in an earlier life of a process are dropped, also when they arrive with a server's
// certificate.
func TestReplayedPackets(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newTCPWorld(t, newAuthority(t, "prod").server("n1"))
		all := bootAll(t, w, 2)
		require.NoError(t, all[0].send(2, 0))
		settle()
		generation := func(e *linkEnd) *wire.Generation {
			e.owner.mu.Lock()
			defer e.owner.mu.Unlock()
			return e.mine.encode()
		}
		end := func(s *Server, self, peer multicast.ProcessID) *linkEnd {
			s.mu.Lock()
			k := s.links[self]
			s.mu.Unlock()
			k.mu.Lock()
			defer k.mu.Unlock()
			return k.ends[peer]
		}
		recorded := &wire.Packet{
			From: 1, To: 2, Source: generation(end(w.servers[1], 1, 2)), Target: generation(end(w.servers[2], 2, 1)),
			First: 1, Frames: [][]byte{stretch{life: 1, session: 1}.frame(0)},
		}
		all[0].stop()
		all[0] = boot(t, w, 1, 2)
		require.NoError(t, all[0].send(2, 0))
		settle()
		require.NoError(t, all[0].send(2, 0))
		settle()
		seen := all[1].seen
		client, done := w.grpcTo(w.servers[0], address(2))
		ctx, cancel := context.WithCancel(t.Context())
		stream, err := client.Frames(ctx)
		require.NoError(t, err)
		for range 100 {
			require.NoError(t, stream.Send(&wire.Batch{Packets: []*wire.Packet{recorded}}))
		}
		settle()
		require.Equal(t, seen, all[1].seen)
		require.NoError(t, all[0].send(2, 0))
		settle()
		requireInStep(t, all[0], all[1])
		cancel()
		done()
		stopAll(all)
		w.close()
	})
}
