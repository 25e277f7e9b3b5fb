package transport

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/identity"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/pkg/multicast"
	"github.com/globalfs/globalfs/pkg/shmconn"
	"github.com/globalfs/globalfs/test/bubble"
	"github.com/globalfs/globalfs/test/logged"
)

// pipeSharing is sharing on a network of queues in memory.
type pipeSharing struct {
	pipes *pipes
	lies  uint32 // added to the user of the peer

	mu     sync.Mutex
	names  int
	halves map[string]net.Conn // offered, by the address of their connection
	offers int
}

func newPipeSharing(p *pipes) *pipeSharing {
	return &pipeSharing{pipes: p, halves: map[string]net.Conn{}}
}

func (s *pipeSharing) listen() (net.Listener, string, error) {
	s.mu.Lock()
	s.names++
	name := fmt.Sprintf("%s%032d", sharedPrefix, s.names)
	s.mu.Unlock()
	l, err := s.pipes.listen(nameAddress(name))
	return l, name, err
}

// nameAddress returns the address of a name on the network of queues.
func nameAddress(name string) string { return "127.0.0.1:" + name[len(name)-3:] }

func (s *pipeSharing) dial(ctx context.Context, name string) (net.Conn, error) {
	return s.pipes.dial(ctx, nameAddress(name))
}

func (s *pipeSharing) user(net.Conn) (uint32, error) { return ownUser() + s.lies, nil }

// half is one end of a shared connection, which ends with the connection below.
type half struct {
	*shmconn.Conn
	below net.Conn
}

func (h *half) Close() error { return errors.Join(h.Conn.Close(), h.below.Close()) }

// offer sends a byte when the other half is ready.
func (s *pipeSharing) offer(conn net.Conn, deadline time.Time) (net.Conn, error) {
	a, b := shmconn.Pipe()
	s.mu.Lock()
	s.offers++
	key := fmt.Sprintf("%08d", s.offers)
	s.halves[key] = b
	s.mu.Unlock()
	if _, err := io.WriteString(conn, key); err != nil {
		return nil, errors.Join(err, a.Close(), b.Close())
	}
	return s.end(a, conn)
}

func (s *pipeSharing) accept(conn net.Conn, deadline time.Time) (net.Conn, error) {
	key := make([]byte, 8)
	if _, err := io.ReadFull(conn, key); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.halves[string(key)].(*shmconn.Conn)
	delete(s.halves, string(key))
	return s.end(b, conn)
}

// end closes a half when the connection below ends, as a broken network would.
func (s *pipeSharing) end(c *shmconn.Conn, below net.Conn) (net.Conn, error) {
	if err := below.SetDeadline(time.Time{}); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	go func() {
		_, _ = below.Read(make([]byte, 1))
		_ = c.Close()
	}()
	return &half{Conn: c, below: below}, nil
}

// sharedConns counts the connections of a server's peers through shared memory, and the others.
func sharedConns(s *Server) (shared, others int) {
	s.framed.mu.Lock()
	defer s.framed.mu.Unlock()
	for c := range s.framed.sessions {
		if c.shared {
			shared++
		} else {
			others++
		}
	}
	return shared, others
}

// newSharedWorld returns a world with shared memory. The servers in without do not use it.
func newSharedWorld(t *testing.T, without ...int) *tcpWorld {
	w := &tcpWorld{t: t, credentials: newAuthority(t, "prod").server("n1"), moved: map[multicast.ProcessID]string{}, pipes: newPipes()}
	w.sharing = newPipeSharing(w.pipes)
	for _, i := range without {
		w.unshared[i] = true
	}
	for i := range 3 {
		w.servers = append(w.servers, w.listen(i))
	}
	return w
}

// The processes of one host use shared memory, for links and calls, and TCP with a server that does not.
func TestSharedMemoryIsUsed(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newSharedWorld(t, 2)
		all := bootAll(t, w, 3)
		for _, p := range all {
			p.endpoint.Serve(echo)
		}
		for _, p := range all {
			for _, q := range all {
				_, err := p.endpoint.Call(t.Context(), q.id, []byte("x"))
				require.NoError(t, err)
			}
		}
		synctest.Wait()
		for i, want := range [][2]int{{2, 2}, {2, 2}, {0, 4}} {
			shared, others := sharedConns(w.servers[i])
			require.Equal(t, want, [2]int{shared, others}, "server %d: links and calls of two peers", i)
		}
		stopAll(all)
		w.close()
	})
}

// A process that sits between the ends of a handshake, with another user, gets nothing; the connection stays
// on TCP.
func TestSharedMemoryOfAnotherUser(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newSharedWorld(t)
		w.sharing.(*pipeSharing).lies = 1
		all := bootAll(t, w, 2)
		synctest.Wait()
		for i := range 2 {
			shared, others := sharedConns(w.servers[i])
			require.Zero(t, shared)
			require.Positive(t, others+1)
		}
		require.True(t, w.log.Has("another process may sit between them"))
		stopAll(all)
		w.close()
	})
}

// relay is a sharing whose names lead to another server.
type relay struct {
	hostSharing
	to func() string
}

func (r relay) dial(ctx context.Context, _ string) (net.Conn, error) {
	return r.hostSharing.dial(ctx, r.to())
}

// listening makes a server on TCP with shared memory.
func listening(t *testing.T, c *identity.Credentials, log *logged.Text) *Server {
	s, err := Listen(Config{Address: "127.0.0.1:0", Credentials: c, SharedMemory: true, Logger: log.Logger(),
		Resolve: func(multicast.ProcessID) (string, bool) { return "", false }})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	s.Endpoint(1).Serve(echo)
	return s
}

// A client does not speak to another server than that which it has reached by TCP, nor to another process of
// the same server.
func TestSharedMemoryOfAnotherServer(t *testing.T) {
	var log logged.Text
	certs := newAuthority(t, "prod")
	one, two, twin := listening(t, certs.server("n1"), &log), listening(t, certs.server("n2"), &log), listening(t, certs.server("n1"), &log)
	for name, c := range map[string]struct {
		to   *Server
		says string
	}{
		"itself":               {one, ""},
		"another server":       {two, "answers on the socket of"},
		"the server elsewhere": {twin, "introduces itself as"},
	} {
		before, _ := sharedConns(c.to)
		d := Dial(Config{Credentials: certs.client("c", posix.Everybody()), SharedMemory: true, Logger: log.Logger(),
			sharing: relay{to: func() string { return c.to.gate.shared.name }}, Resolve: func(multicast.ProcessID) (string, bool) { return one.Address(), true }})
		reply, err := d.Call(t.Context(), 1, []byte("hello"))
		require.NoError(t, err, name)
		require.Equal(t, "echo hello", string(reply))
		shared, _ := sharedConns(c.to)
		require.Equal(t, c.says == "", shared == before+1, name)
		require.True(t, c.says == "" || log.Has(c.says), name)
		require.NoError(t, d.Close())
	}
}

// Strangers are refused on the Unix socket as they are over TCP, and the revocation of a certificate ends its
// connections through shared memory.
func TestSharedMemoryChecksIdentity(t *testing.T) {
	var log logged.Text
	certs, rogue := newAuthority(t, "prod"), newAuthority(t, "prod")
	own := certs.server("n1")
	s := listening(t, own, &log)
	for name, c := range map[string]*tls.Config{
		"no certificate": showing(),
		"another CA":     showing(rogue.forge("globalfs://prod/server/n1", asIs)),
		"no role":        showing(certs.forge("globalfs://prod/root/n1", asIs)),
		"TCP's protocol": certs.client("c", posix.Everybody()).ClientConfig(),
	} {
		c.NextProtos = []string{sharedProtocol}
		if name == "TCP's protocol" {
			c.NextProtos = []string{framedProtocol}
		}
		raw, err := (hostSharing{}).dial(t.Context(), s.gate.shared.name)
		require.NoError(t, err)
		require.NoError(t, raw.SetDeadline(time.Now().Add(10*time.Second)))
		conn := tls.Client(raw, c)
		_, err = conn.Read(make([]byte, 1))
		var late net.Error
		require.True(t, err != nil && !(errors.As(err, &late) && late.Timeout()), "%s: %v", name, err)
		require.NoError(t, raw.Close())
	}

	client := certs.client("c", posix.Everybody())
	d := Dial(Config{Credentials: client, SharedMemory: true, Resolve: func(multicast.ProcessID) (string, bool) { return s.Address(), true }})
	defer d.Close()
	_, err := d.Call(t.Context(), 1, []byte("hello"))
	require.NoError(t, err)
	shared, _ := sharedConns(s)
	require.Equal(t, 1, shared)
	own.SetRevoked([]identity.Revocation{{Role: identity.Client, Name: "c", At: time.Now().Add(time.Minute)}})
	s.Recheck()
	require.Eventually(t, func() bool { shared, _ := sharedConns(s); return shared == 0 }, 10*time.Second, time.Millisecond)
	_, err = d.Call(t.Context(), 1, []byte("hello"))
	require.ErrorIs(t, err, ErrUnreachable)
}

// A process that relays the handshake of a client cannot accept the shared memory in the client's place: the
// acceptance is inside TLS.
func TestSharedMemoryNeedsTheClient(t *testing.T) {
	f := newFortressWith(t, limits{}, true)
	door := f.server.gate.shared
	raw, err := door.dial(t.Context(), door.name)
	require.NoError(t, err)
	defer func() { _ = raw.Close() }()
	deadline := time.Now().Add(20 * time.Second)
	require.NoError(t, raw.SetDeadline(deadline))
	config := f.certs.client("good", posix.Everybody()).ClientConfig()
	config.NextProtos = []string{sharedProtocol}
	_, err = io.ReadFull(tls.Client(raw, config), make([]byte, len(introduction(0, door.name))))
	require.NoError(t, err)
	_, err = raw.Write([]byte{shareGo})
	require.NoError(t, err)
	_, err = door.accept(raw, deadline)
	require.Error(t, err)
}
