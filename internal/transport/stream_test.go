package transport

import (
	"context"
	"io"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/identity"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/varint"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// streaming is two servers of one host with a stream from process 1 to process 2, which echoes.
type streaming struct {
	from, to *Server
	client   Streams
	peers    chan string // of the streams
	ends     chan struct{}
}

func newStreaming(t *testing.T, c *identity.Credentials) *streaming { return newStreamingAs(t, c, c) }

// newStreamingAs gives each server credentials of its own.
func newStreamingAs(t *testing.T, from, to *identity.Credentials) *streaming {
	s := &streaming{peers: make(chan string, 9), ends: make(chan struct{}, 9)}
	resolve := func(p multicast.ProcessID) (string, bool) { return s.to.Address(), p != 1 }
	for i, at := range []**Server{&s.from, &s.to} {
		c := []*identity.Credentials{from, to}[i]
		server, err := Listen(Config{Address: "127.0.0.1:0", Credentials: c, SharedMemory: c != nil, Resolve: resolve})
		require.NoError(t, err)
		*at = server
		t.Cleanup(func() { require.NoError(t, server.Close()) })
	}
	s.client = s.from.Endpoint(1).(Streams)
	s.to.Endpoint(2).(Streams).ServeStreams(func(from multicast.ProcessID, peer *identity.Identity, stream net.Conn) {
		defer func() { s.ends <- struct{}{} }()
		name := "-"
		if peer != nil {
			name = peer.String()
		}
		s.peers <- name
		if from == 1 {
			_, _ = io.Copy(stream, stream)
		}
	})
	return s
}

// send sends bytes over a stream and reads them again.
func send(t *testing.T, stream net.Conn) {
	t.Helper()
	sent := make([]byte, 1<<20)
	for i := range sent {
		sent[i] = byte(i * i)
	}
	failed := make(chan error, 1)
	go func() {
		_, err := stream.Write(sent)
		failed <- err
	}()
	got := make([]byte, len(sent))
	_, err := io.ReadFull(stream, got)
	require.NoError(t, err)
	require.NoError(t, <-failed)
	require.Equal(t, sent, got)
}

// TestStreams carries bytes over TCP and through shared memory, with the identity of the server.
func TestStreams(t *testing.T) {
	certs := newAuthority(t, "prod")
	for name, c := range map[string]struct {
		credentials *identity.Credentials
		way         Way
		peer        string
		fabric      string
	}{
		"plain":  {nil, AnyWay, "-", FabricTCP},
		"tls":    {certs.server("n1"), TCPWay, certs.server("n1").Identity().String(), FabricTCP},
		"any":    {certs.server("n1"), AnyWay, certs.server("n1").Identity().String(), FabricShm},
		"shared": {certs.server("n1"), SharedWay, certs.server("n1").Identity().String(), FabricShm},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStreaming(t, c.credentials)
			stream, err := s.client.Stream(t.Context(), 2, c.way)
			require.NoError(t, err)
			send(t, stream)
			require.Equal(t, c.peer, <-s.peers)
			require.Equal(t, c.fabric, FabricOf(stream))
			require.Eventually(t, func() bool { // a socket begins with a connection over TCP
				all := s.to.Connections()
				return len(all) == 1 && all[0].Fabric == c.fabric
			}, 10*time.Second, time.Millisecond)
			require.NoError(t, stream.Close())
			<-s.ends
			require.Eventually(t, func() bool { return len(s.to.Connections()) == 0 }, 10*time.Second, time.Millisecond)
		})
	}
}

// TestStreamsEnd: a stream ends with the server at its other end, and there is none to a process that takes
// no streams, or by a way that is not there.
func TestStreamsEnd(t *testing.T) {
	for way, c := range map[Way]*identity.Credentials{TCPWay: nil, SharedWay: newAuthority(t, "prod").server("n1")} {
		s := newStreaming(t, c)
		stream, err := s.client.Stream(t.Context(), 2, way)
		require.NoError(t, err)
		send(t, stream)
		_, err = s.client.Stream(t.Context(), 1, AnyWay)
		require.ErrorIs(t, err, ErrUnreachable)
		_, err = s.client.Stream(t.Context(), 3, SharedWay)
		require.ErrorIs(t, err, ErrUnreachable)
		if c == nil {
			require.ErrorContains(t, err, "this server shares no memory")
		} else {
			require.ErrorContains(t, err, "the process takes no streams")
			_, err = s.client.Stream(t.Context(), 3, AnyWay)
			require.ErrorIs(t, err, ErrUnreachable)
			again, err := s.client.Stream(t.Context(), 2, AnyWay)
			require.NoError(t, err)
			require.Equal(t, FabricShm, FabricOf(again), "a refusal of the process says nothing about shared memory")
			require.NoError(t, again.Close())
		}
		require.NoError(t, s.to.Close())
		_, err = stream.Read(make([]byte, 1))
		require.Error(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = s.client.Stream(ctx, 2, AnyWay)
		require.ErrorIs(t, err, ErrUnreachable)
	}
}

// TestStreamsWithoutSharedMemory: a server that shares no memory, or is on another host, is reached by TCP,
// unless shared memory is demanded.
func TestStreamsWithoutSharedMemory(t *testing.T) {
	s := newStreaming(t, newAuthority(t, "prod").server("n1"))
	require.NoError(t, s.to.gate.shared.listener.Close()) // its name leads nowhere, as on another host
	stream, err := s.client.Stream(t.Context(), 2, AnyWay)
	require.NoError(t, err)
	require.Equal(t, FabricTCP, FabricOf(stream))
	send(t, stream)
	_, err = s.client.Stream(t.Context(), 2, SharedWay)
	require.ErrorContains(t, err, "an attempt to share memory has failed")
	clear(s.from.pool.framed.unshared)
	_, err = s.client.Stream(t.Context(), 2, SharedWay)
	require.ErrorContains(t, err, "is it on this host")
}

// TestStreamsAreForServers: a client's certificate opens no stream, and the handler learns of none.
func TestStreamsAreForServers(t *testing.T) {
	certs := newAuthority(t, "prod")
	s := newStreaming(t, certs.server("n1"))
	for _, c := range []*identity.Credentials{certs.client("c", posix.Everybody()), certs.admin("a")} {
		d := Dial(Config{Credentials: c, Resolve: func(multicast.ProcessID) (string, bool) { return s.to.Address(), true }})
		conn, err := d.pool.framed.connectTo(t.Context(), s.to.Address())
		require.NoError(t, err)
		body := varint.AppendUint(varint.AppendUint(nil, multicast.ProcessID(1)), multicast.ProcessID(2))
		require.NoError(t, conn.send(t.Context(), append(appendHead(nil, kindStream, 0, len(body)), body...), nil))
		require.NoError(t, conn.SetReadDeadline(time.Now().Add(5*time.Second)))
		_, err = conn.framedConn.next()
		require.ErrorContains(t, err, "only servers have streams")
		conn.fail(err)
		require.NoError(t, d.Close())

		d = Dial(Config{Credentials: c, SharedMemory: true, Resolve: func(multicast.ProcessID) (string, bool) { return s.to.Address(), true }})
		conn, err = d.pool.framed.connectTo(t.Context(), s.to.Address())
		require.NoError(t, err)
		_, err = d.pool.framed.socket(t.Context(), conn, socketEnds{1, 2})
		require.Error(t, err)
		conn.fail(err)
		require.NoError(t, d.Close())
	}
	require.Empty(t, s.peers)
}

// TestStreamsOfRevokedServers end, at the server and at the process that has opened them.
func TestStreamsOfRevokedServers(t *testing.T) {
	revoked := []identity.Revocation{{Role: identity.Server, Name: "n1", At: time.Now().Add(time.Hour)}}
	for _, way := range []Way{TCPWay, SharedWay} {
		certs := newAuthority(t, "prod")
		c := certs.server("n1")
		s := newStreaming(t, c)
		stream, err := s.client.Stream(t.Context(), 2, way)
		require.NoError(t, err)
		send(t, stream)
		c.SetRevoked(revoked)
		s.to.Recheck()
		_, err = stream.Read(make([]byte, 1))
		require.Error(t, err)
		<-s.ends
	}
}

// TestSocketsToRevokedServers: the process that has opened a socket closes it, also if the server at the
// other end does not know of the revocation.
func TestSocketsToRevokedServers(t *testing.T) {
	certs := newAuthority(t, "prod")
	own := certs.server("n2")
	s := newStreamingAs(t, own, certs.server("n1"))
	socket, err := s.client.Stream(t.Context(), 2, SharedWay)
	require.NoError(t, err)
	send(t, socket)
	own.SetRevoked([]identity.Revocation{{Role: identity.Server, Name: "n1", At: time.Now().Add(time.Hour)}})
	require.NoError(t, socket.SetReadDeadline(time.Now().Add(4*probeTime)))
	_, err = socket.Read(make([]byte, 1))
	require.ErrorIs(t, err, net.ErrClosed)
	<-s.ends
}
