package transport

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"io"
	"net"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/globalfs/globalfs/internal/identity"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/wire"
	"github.com/globalfs/globalfs/pkg/multicast"
	"github.com/globalfs/globalfs/test/logged"
)

// fortress is a server on TCP under attack, with the traffic that must go on: a client's calls, and links
// from a second server.
type fortress struct {
	t      *testing.T
	certs  *authority
	server *Server
	client *Client
	inside *process // 1, at the server
	friend *process // 2, at the second one
	calls  atomic.Int64
	shared bool // all traffic is through shared memory
}

func newFortress(t *testing.T, l limits) *fortress { return newFortressWith(t, l, false) }

// newFortressWith is newFortress, perhaps with shared memory.
func newFortressWith(t *testing.T, l limits, shared bool) *fortress {
	f := &fortress{t: t, certs: newAuthority(t, "prod"), shared: shared}
	var homes [2]atomic.Pointer[Server]
	cfg := Config{Address: "127.0.0.1:0", limits: l, SharedMemory: shared, Credentials: f.certs.server("n1"), Resolve: func(id multicast.ProcessID) (string, bool) {
		s := homes[id%2].Load()
		if s == nil {
			return "", false
		}
		return s.Address(), true
	}}
	var servers [2]*Server
	for i := range servers {
		s, err := Listen(cfg)
		require.NoError(t, err)
		servers[i] = s
		homes[i].Store(s)
		t.Cleanup(func() { require.NoError(t, s.Close()) })
	}
	f.server = servers[1]
	cfg.Credentials = f.certs.client("good", posix.Everybody())
	f.client = Dial(cfg)
	f.inside, f.friend = boot(t, fortressWorld{servers[1]}, 1, 1), boot(t, fortressWorld{servers[0]}, 2, 1)
	f.inside.endpoint.Serve(func(_ context.Context, request []byte) ([]byte, error) {
		f.calls.Add(1)
		return request, nil
	})
	t.Cleanup(func() {
		stopAll([]*process{f.inside, f.friend})
		require.NoError(t, f.client.Close())
	})
	require.Eventually(t, func() bool { return f.friend.send(1, 10) == nil && f.started() }, 30*time.Second, 10*time.Millisecond)
	return f
}

type fortressWorld struct{ *Server }

func (w fortressWorld) endpoint(id multicast.ProcessID) Endpoint { return w.Endpoint(id) }
func (w fortressWorld) disturb()                                 {}
func (w fortressWorld) close()                                   {}

func (f *fortress) started() bool {
	f.friend.mu.Lock()
	defer f.friend.mu.Unlock()
	return f.friend.out[1] != nil
}

// requireGood checks that legitimate peers are served: on an existing connection, on a new one, and over
// links.
func (f *fortress) requireGood(what string) {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.t.Context(), 10*time.Second)
	defer cancel()
	fresh := Dial(f.client.pool.cfg)
	for _, c := range []*Client{f.client, fresh} {
		reply, err := c.Call(ctx, 1, []byte("hello"))
		require.NoError(f.t, err, what)
		require.Equal(f.t, "hello", string(reply))
	}
	require.NoError(f.t, fresh.Close())
	f.inside.mu.Lock()
	before := f.inside.seen
	f.inside.mu.Unlock()
	require.NoError(f.t, f.friend.send(1, 10))
	require.Eventually(f.t, func() bool {
		f.inside.mu.Lock()
		defer f.inside.mu.Unlock()
		return f.inside.seen > before
	}, 30*time.Second, time.Millisecond, what)
}

// attacker returns a gRPC client with credentials of its own making.
func (f *fortress) attacker(c credentials.TransportCredentials) wire.TransportClient {
	conn, err := grpc.NewClient("passthrough:///"+f.server.Address(), grpc.WithTransportCredentials(c))
	require.NoError(f.t, err)
	f.t.Cleanup(func() { _ = conn.Close() })
	return wire.NewTransportClient(conn)
}

func TestStrangersAreRefused(t *testing.T) {
	f := newFortress(t, limits{})
	rogue := newAuthority(t, "prod")
	withTLS := func(c *tls.Config) credentials.TransportCredentials { return credentials.NewTLS(c) }
	old := showing(f.certs.forge("globalfs://prod/server/old", asIs))
	old.MaxVersion = tls.VersionTLS12
	wrong := showing(f.certs.forge("globalfs://prod/server/x", asIs))
	wrong.Certificates[0].PrivateKey = rogue.forge("globalfs://prod/server/x", asIs).PrivateKey
	for name, c := range map[string]credentials.TransportCredentials{
		"plain":           insecure.NewCredentials(),
		"no certificate":  withTLS(showing()),
		"another CA":      withTLS(showing(rogue.forge("globalfs://prod/server/n1", asIs))),
		"another cluster": withTLS(showing(f.certs.forge("globalfs://test/server/n1", asIs))),
		"no identity":     withTLS(showing(f.certs.forge("https://prod/server/n1", asIs))),
		"no role":         withTLS(showing(f.certs.forge("globalfs://prod/root/n1", asIs))),
		"two identities":  withTLS(showing(f.certs.forge("globalfs://prod/client/a?uids=1&gids=1", func(c *x509.Certificate) { c.URIs = append(c.URIs, c.URIs[0]) }))),
		"expired":         withTLS(showing(f.certs.forge("globalfs://prod/server/n1", func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) }))),
		"not yet valid":   withTLS(showing(f.certs.forge("globalfs://prod/server/n1", func(c *x509.Certificate) { c.NotBefore = time.Now().Add(time.Minute) }))),
		"only to serve":   withTLS(showing(f.certs.forge("globalfs://prod/server/n1", func(c *x509.Certificate) { c.ExtKeyUsage = c.ExtKeyUsage[1:] }))),
		"a CA":            withTLS(showing(f.certs.forge("globalfs://prod/server/n1", func(c *x509.Certificate) { c.IsCA, c.BasicConstraintsValid = true, true }))),
		"TLS 1.2":         withTLS(old),
		"another's key":   withTLS(wrong),
	} {
		before := f.calls.Load()
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		_, err := f.attacker(c).Call(ctx, &wire.CallRequest{To: 1})
		require.Equal(t, codes.Unavailable, status.Code(err), "%s: %v", name, err)
		stream, err := f.attacker(c).Frames(ctx)
		if err == nil {
			err = stream.RecvMsg(new(wire.FramesEnd))
		}
		require.Equal(t, codes.Unavailable, status.Code(err), "%s: %v", name, err)
		cancel()
		require.Equal(t, before, f.calls.Load(), name)
		f.requireGood(name)
	}
}

// Only a server acts for processes.
func TestOnlyServersHaveLinks(t *testing.T) {
	f := newFortress(t, limits{})
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for _, c := range []*identity.Credentials{f.certs.client("c", posix.Everybody()), f.certs.admin("a")} {
		stream, err := f.attacker(credentials.NewTLS(c.ClientConfig())).Frames(ctx)
		require.NoError(t, err)
		generation := &wire.Generation{Incarnation: 1 << 40}
		_ = stream.Send(&wire.Batch{Packets: []*wire.Packet{{From: 2, To: 1, Source: generation}}})
		require.Equal(t, codes.PermissionDenied, status.Code(stream.RecvMsg(new(wire.FramesEnd))))
		f.requireGood("an open stream")
	}
}

// impostor answers calls with a certificate that does not belong to a server.
func impostor(t *testing.T, certificate tls.Certificate) (address string, asked *atomic.Int64) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	config := showing(certificate)
	config.ClientAuth = tls.RequestClientCert
	s := grpc.NewServer(grpc.Creds(credentials.NewTLS(config)))
	asked = new(atomic.Int64)
	wire.RegisterTransportServer(s, &countingServer{asked: asked})
	done := make(chan struct{})
	go func() { defer close(done); _ = s.Serve(l) }()
	t.Cleanup(func() { s.Stop(); <-done })
	return l.Addr().String(), asked
}

type countingServer struct {
	wire.UnimplementedTransportServer
	asked *atomic.Int64
}

func (s *countingServer) Call(context.Context, *wire.CallRequest) (*wire.CallReply, error) {
	s.asked.Add(1)
	return &wire.CallReply{}, nil
}

func (s *countingServer) Frames(grpc.ClientStreamingServer[wire.Batch, wire.FramesEnd]) error {
	s.asked.Add(1)
	return nil
}

// Neither a client nor another server sends anything to a peer that is not a server of the cluster.
func TestImpostorsHearNothing(t *testing.T) {
	certs, rogue := newAuthority(t, "prod"), newAuthority(t, "prod")
	client := "globalfs://prod/client/c?uids=1&gids=1"
	for name, c := range map[string]struct {
		certificate tls.Certificate
		says        string
	}{
		"client":          {certs.forge(client, func(c *x509.Certificate) { c.ExtKeyUsage = c.ExtKeyUsage[:1] }), "incompatible key usage"},
		"client to serve": {certs.forge(client, asIs), "which is not a server"},
		"admin":           {certs.forge("globalfs://prod/admin/a", asIs), "which is not a server"},
		"another cluster": {certs.forge("globalfs://test/server/a", asIs), "of another cluster"},
		"another CA":      {rogue.forge("globalfs://prod/server/a", asIs), "unknown authority"},
		"expired":         {certs.forge("globalfs://prod/server/a", func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) }), "expired"},
	} {
		address, asked := impostor(t, c.certificate)
		resolve := func(multicast.ProcessID) (string, bool) { return address, true }
		d := Dial(Config{Resolve: resolve, Credentials: certs.client("good", posix.Everybody())})
		_, err := d.Call(t.Context(), 1, []byte("secret"))
		require.ErrorIs(t, err, ErrUnreachable, name)
		require.ErrorContains(t, err, c.says, name)
		require.NoError(t, d.Close())

		var log logged.Text
		s, err := Listen(Config{Address: "127.0.0.1:0", Resolve: resolve, Credentials: certs.server("n1"), Logger: log.Logger()})
		require.NoError(t, err)
		links, err := s.Endpoint(7).Links(1)
		require.NoError(t, err)
		require.NoError(t, receiving(links).Send(1, []byte("secret")))
		require.Eventually(t, func() bool { return log.Has(c.says) }, 30*time.Second, time.Millisecond, name)
		require.NoError(t, s.Close())
		require.Zero(t, asked.Load(), name)
	}
}

// wireFrame returns a frame of HTTP/2.
func wireFrame(kind, flags byte, stream uint32, payload []byte) []byte {
	head := binary.BigEndian.AppendUint32(nil, uint32(len(payload))<<8|uint32(kind))
	head = append(head, flags)
	return append(binary.BigEndian.AppendUint32(head, stream), payload...)
}

// callHead opens stream 1 as a call does: HPACK literals, never indexed by name.
func callHead() []byte {
	var block []byte
	for _, h := range [][2]string{
		{":method", "POST"}, {":scheme", "https"}, {":path", wire.Transport_Call_FullMethodName}, {":authority", "x"},
		{"content-type", "application/grpc"}, {"te", "trailers"},
	} {
		block = append(append(append(append(block, 0, byte(len(h[0]))), h[0]...), byte(len(h[1]))), h[1]...)
	}
	return wireFrame(1, 4, 1, block)
}

const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

// TestGarbage sends garbage before the handshake and, from a client with a valid certificate, after it.
func TestGarbage(t *testing.T) {
	f := newFortress(t, limits{handshakes: 16, handshake: time.Second, connections: 64, perClient: 16, calls: 64, bytes: 8 << 20, callsPerSecond: 1000})
	c := f.certs.client("bad", posix.Everybody())
	noise := bytes.Repeat([]byte{0xa5, 0x16, 0x03, 0x00, 0xff}, 50_000)
	settings := wireFrame(4, 0, 0, nil)
	hello := join([]byte(preface), settings)
	message := func(length uint32, body []byte) []byte {
		return append(binary.BigEndian.AppendUint32([]byte{0}, length), body...)
	}
	for name, a := range map[string]struct {
		inside bool
		data   []byte
	}{
		"noise":                  {false, noise},
		"TLS record of 64 KiB":   {false, append([]byte{22, 3, 1, 0xff, 0xff}, noise...)},
		"HTTP/1":                 {false, []byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n")},
		"HTTP/2 without TLS":     {false, join(hello, callHead())},
		"noise inside":           {true, noise},
		"HTTP/1 inside":          {true, []byte("POST / HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n")},
		"frame of 16 MiB":        {true, join(hello, []byte{0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 1})},
		"message of 4 GiB":       {true, join(hello, callHead(), wireFrame(0, 1, 1, message(1<<32-1, noise[:1000])))},
		"message over the limit": {true, join(hello, callHead(), wireFrame(0, 1, 1, message(MaxCall+envelope+1, noise[:1000])))},
		"compressed message":     {true, join(hello, callHead(), wireFrame(0, 1, 1, append([]byte{1, 0, 0, 0, 10}, noise[:10]...)))},
		"noise for a message":    {true, join(hello, callHead(), wireFrame(0, 1, 1, message(1000, noise[:1000])))},
		"headers that never end": {true, join(hello, bytes.Repeat(wireFrame(1, 0, 1, noise[:10_000]), 20))},
		"data for no stream":     {true, join(hello, wireFrame(0, 0, 77, noise[:1000]), wireFrame(6, 0, 0, noise[:8]))},
		"windows that overflow":  {true, join(hello, bytes.Repeat(wireFrame(8, 0, 0, []byte{0x7f, 0xff, 0xff, 0xff}), 3), wireFrame(6, 0, 0, noise[:8]))},
	} {
		before := f.calls.Load()
		conn, err := net.Dial("tcp", f.server.Address())
		require.NoError(t, err)
		raw := conn
		require.NoError(t, raw.SetDeadline(time.Now().Add(5*time.Second)))
		if a.inside {
			config := c.ClientConfig()
			config.NextProtos = []string{protocol}
			conn = tls.Client(raw, config)
		}
		_, _ = conn.Write(a.data) // the server may have closed the connection already
		require.NotErrorIs(t, answered(conn), os.ErrDeadlineExceeded, "%s: the server waits", name)
		_ = conn.Close()
		require.Equal(t, before, f.calls.Load(), name)
		f.requireGood(name)
	}
}

// answered reads until the server answers, or ends the stream or the connection.
func answered(conn io.Reader) error {
	for {
		var head [9]byte
		if _, err := io.ReadFull(conn, head[:]); err != nil {
			return err
		}
		switch head[3] {
		case 1, 3, 6, 7: // HEADERS, RST_STREAM, PING, GOAWAY
			return nil
		}
		if _, err := io.CopyN(io.Discard, conn, int64(binary.BigEndian.Uint32(head[:])>>8)); err != nil {
			return err
		}
	}
}

func join(parts ...[]byte) []byte { return bytes.Join(parts, nil) }
