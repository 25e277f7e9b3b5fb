package rdmaconn

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/nettest"

	"github.com/globalfs/globalfs/internal/identity"
	"github.com/globalfs/globalfs/pkg/fabric"
	"github.com/globalfs/globalfs/pkg/fabric/soft"
)

// overSoft opens endpoints without RDMA.
func overSoft(self fabric.NodeID, dial func(context.Context, fabric.NodeID) (net.Conn, error)) (Endpoint, error) {
	return soft.New(soft.Config{Self: self, Dial: dial})
}

// listen makes a listener at a loopback address, and a function that dials it.
func listen(t testing.TB, cfg Config) (*Listener, func(ctx context.Context) (net.Conn, error)) {
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	l, err := Listen(cfg, inner)
	require.NoError(t, err)
	t.Cleanup(func() { l.Close() })
	return l, func(ctx context.Context) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", inner.Addr().String())
	}
}

// connect makes both ends of a connection.
func connect(t testing.TB, cfg Config) (dialled, accepted *Conn) {
	l, dial := listen(t, cfg)
	dialled, err := Dial(context.Background(), cfg, dial)
	require.NoError(t, err)
	conn, err := l.Accept()
	require.NoError(t, err)
	t.Cleanup(func() {
		dialled.Close()
		conn.Close()
	})
	return dialled, conn.(*Conn)
}

// configs returns the fabrics that this build and this machine have.
func configs() map[string]Config {
	all := map[string]Config{"soft": {Open: overSoft}, "soft, small ring": {Open: overSoft, Ring: minRing}}
	if withRDMA && (os.Getenv("RDMA_VM") == "1" || os.Getenv("RDMA_DEVICE") != "") {
		all["verbs"] = Config{Open: Verbs(os.Getenv("RDMA_DEVICE"))}
	}
	return all
}

// forAll runs a test for each fabric.
func forAll(t *testing.T, test func(t *testing.T, cfg Config)) {
	for name, cfg := range configs() {
		t.Run(name, func(t *testing.T) { test(t, cfg) })
	}
}

// TestConn is the conformance suite of connections.
func TestConn(t *testing.T) {
	forAll(t, func(t *testing.T, cfg Config) {
		nettest.TestConn(t, func() (c1, c2 net.Conn, stop func(), err error) {
			dialled, accepted := connect(t, cfg)
			return dialled, accepted, func() {
				dialled.Close()
				accepted.Close()
			}, nil
		})
	})
}

// TestHalfClose: after CloseWrite, the peer reads the whole stream, and can still write its own stream.
func TestHalfClose(t *testing.T) {
	forAll(t, func(t *testing.T, cfg Config) {
		a, b := connect(t, cfg)
		var writing sync.WaitGroup
		defer writing.Wait()
		request := make([]byte, 300_000)
		for i := range request {
			request[i] = byte(i * 7 >> 3)
		}
		writing.Go(func() {
			if _, err := a.Write(request); err != nil {
				t.Error(err)
			}
			if err := a.CloseWrite(); err != nil {
				t.Error(err)
			}
		})
		got, err := io.ReadAll(b)
		require.NoError(t, err)
		require.Equal(t, request, got)
		_, err = b.Write([]byte("answer"))
		require.NoError(t, err)
		require.NoError(t, b.Close())
		got, err = io.ReadAll(a)
		require.NoError(t, err)
		require.Equal(t, "answer", string(got))
		_, err = a.Write([]byte("more"))
		require.ErrorIs(t, err, net.ErrClosed)
	})
}

// TestDeath: the end of the peer's process is an error behind the bytes that have arrived, not an end of the
// stream.
func TestDeath(t *testing.T) {
	forAll(t, func(t *testing.T, cfg Config) {
		a, b := connect(t, cfg)
		_, err := a.Write([]byte("last words"))
		require.NoError(t, err)
		got := make([]byte, 4)
		_, err = io.ReadFull(b, got)
		require.NoError(t, err)
		require.NoError(t, a.endpoint.Close()) // as the kernel does for a process that was killed
		rest, err := io.ReadAll(b)
		require.ErrorIs(t, err, errReset)
		require.Equal(t, " words", string(rest))
		_, err = b.Write([]byte("x"))
		require.ErrorIs(t, err, errReset)
	})
}

// TLS with the certificates of a cluster works over a connection.
func TestTLS(t *testing.T) {
	ca, err := identity.NewCA("test", identity.CAValidity)
	require.NoError(t, err)
	dir := t.TempDir()
	require.NoError(t, identity.SaveCA(dir, ca, false))
	issued, err := ca.Issue(identity.Request{Role: identity.Server, Name: "s"})
	require.NoError(t, err)
	files := identity.FilesIn(dir, identity.Server, "s")
	require.NoError(t, issued.Save(files, true))
	credentials, err := identity.Load(files, nil)
	require.NoError(t, err)
	forAll(t, func(t *testing.T, cfg Config) {
		a, b := connect(t, cfg)
		server := tls.Server(b, credentials.ServerConfig())
		done := make(chan error, 1)
		go func() {
			_, err := io.Copy(server, server)
			done <- errors.Join(err, server.Close())
		}()
		client := tls.Client(a, credentials.ClientConfig())
		_, err := client.Write([]byte("secret"))
		require.NoError(t, err)
		require.NoError(t, client.CloseWrite())
		got, err := io.ReadAll(client)
		require.NoError(t, err)
		require.Equal(t, "secret", string(got))
		require.NoError(t, <-done)
		require.IsType(t, &x509.Certificate{}, client.ConnectionState().PeerCertificates[0])
	})
}

func TestConfigNamesTheWrongField(t *testing.T) {
	for want, cfg := range map[string]Config{
		"Open":    {},
		"Ring":    {Open: overSoft, Ring: 4100},
		"Timeout": {Open: overSoft, Timeout: -1},
	} {
		_, err := Dial(t.Context(), cfg, nil)
		require.ErrorContains(t, err, want)
		_, err = Listen(cfg, nil)
		require.ErrorContains(t, err, want)
	}
}

// TestStrangers: connections that do not begin as they must do not stop a listener, and a dialler notices a
// listener of another kind.
func TestStrangers(t *testing.T) {
	cfg := Config{Open: overSoft, Timeout: 10 * time.Second}
	l, dial := listen(t, cfg)
	for _, words := range [][]byte{
		make([]byte, helloSize),
		[]byte("GET / HTTP/1.1\r\nHost: example.org\r\n\r\n"),
		hello(token{1}, 0),
		hello(token{1}, 4100),
	} {
		conn, err := dial(t.Context())
		require.NoError(t, err)
		_, err = conn.Write(words)
		require.NoError(t, err)
		n, err := conn.Read(make([]byte, 1))
		require.Error(t, err)
		require.Zero(t, n)
		conn.Close()
	}
	go func() {
		conn, err := l.Accept()
		if err == nil {
			conn.Close()
		}
	}()
	conn, err := Dial(t.Context(), cfg, dial)
	require.NoError(t, err)
	_, err = io.ReadAll(conn)
	require.NoError(t, err)
	require.NoError(t, conn.Close())

	web, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer web.Close()
	go func() {
		for {
			conn, err := web.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Write([]byte("HTTP/1.1 400 Bad Request\r\n\r\n"))
			conn.Close()
		}
	}()
	_, err = Dial(t.Context(), cfg, func(ctx context.Context) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", web.Addr().String())
	})
	require.ErrorContains(t, err, "another version")
}
