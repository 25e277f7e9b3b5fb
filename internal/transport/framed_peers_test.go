package transport

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/identity"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/pkg/multicast"
	"github.com/globalfs/globalfs/test/bubble"
	"github.com/globalfs/globalfs/test/logged"
)

// Peers that are no servers of the cluster, use the other kind of connection, or are upgraded.

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
