package transport

import (
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/globalfs/globalfs/internal/identity"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/wire"
	"github.com/globalfs/globalfs/pkg/multicast"
	"github.com/globalfs/globalfs/test/bubble"
	"github.com/stretchr/testify/require"
)

// pairOnTCP returns two servers on loopback: one with the odd processes, one with the even ones.
func pairOnTCP(t testing.TB, credentials *identity.Credentials, protocols ...string) (odd, even *Server) {
	var mu sync.Mutex
	var servers [2]*Server
	cfg := Config{Address: "127.0.0.1:0", Credentials: credentials, protocols: protocols, Resolve: func(id multicast.ProcessID) (string, bool) {
		mu.Lock()
		defer mu.Unlock()
		return servers[id%2].Address(), true
	}}
	mu.Lock()
	defer mu.Unlock()
	for i := range servers {
		s, err := Listen(cfg)
		require.NoError(t, err)
		servers[i] = s
		t.Cleanup(func() { require.NoError(t, s.Close()) })
	}
	return servers[1], servers[0]
}

func TestPortInUse(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	address := l.Addr().String()
	_, err = Listen(Config{Address: address})
	require.ErrorContains(t, err, "address "+address+" is in use by another process")
}

// Listen uses a listener that is already open, or closes it if the server cannot use it.
func TestListenerThatIsOpen(t *testing.T) {
	listener := func() net.Listener {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		return l
	}
	l := listener()
	s, err := Listen(Config{Listener: l, Address: "0.0.0.0:1"})
	require.NoError(t, err)
	require.Equal(t, l.Addr().String(), s.Address())
	s.Control(echo)
	c := Dial(Config{})
	reply, err := c.CallAddress(t.Context(), s.Address(), []byte("hello"))
	require.NoError(t, err)
	require.Equal(t, "echo hello", string(reply))
	require.NoError(t, c.Close())
	require.NoError(t, s.Close())
	_, err = l.Accept()
	require.ErrorIs(t, err, net.ErrClosed)

	l = listener()
	certs := newAuthority(t, "prod")
	_, err = Listen(Config{Listener: l, Credentials: certs.client("c", posix.Everybody())})
	require.ErrorContains(t, err, "only a server may listen")
	_, err = l.Accept()
	require.ErrorIs(t, err, net.ErrClosed)
}

func TestOnlyLoopbackWithoutCertificates(t *testing.T) {
	certs := newAuthority(t, "prod")
	for address, ok := range map[string]bool{
		"127.0.0.1:1": true, "localhost:1": true, "[::1]:1": true, "127.9.9.9:1": true,
		"0.0.0.0:1": false, ":1": false, "10.0.0.1:1": false, "example.org:1": false, "127.0.0.1": false,
	} {
		cfg := Config{}
		require.Equal(t, ok, cfg.checkAddress(address) == nil, address)
		if address != "127.0.0.1" {
			cfg.Credentials = certs.server("n1")
			require.NoError(t, cfg.checkAddress(address))
		}
	}
	_, err := Listen(Config{Address: "0.0.0.0:0"})
	require.ErrorContains(t, err, "globalfs certs")
	c := Dial(Config{Resolve: func(multicast.ProcessID) (string, bool) { return "192.0.2.1:80", true }})
	_, err = c.Call(t.Context(), 1, nil)
	require.ErrorContains(t, err, "globalfs certs")
	_, err = c.CallAddress(t.Context(), "192.0.2.1:80", nil)
	require.ErrorContains(t, err, "globalfs certs")
	require.NoError(t, c.Close())
	_, err = Listen(Config{Address: "127.0.0.1:0", Credentials: certs.client("c", posix.Everybody())})
	require.ErrorContains(t, err, "only a server may listen")
}

func TestClientOverTCP(t *testing.T) {
	odd, even := pairOnTCP(t, nil)
	even.Endpoint(2).Serve(echo)
	c := Dial(Config{Resolve: odd.pool.cfg.Resolve})
	reply, err := c.Call(t.Context(), 2, []byte("hello"))
	require.NoError(t, err)
	require.Equal(t, "echo hello", string(reply))
	_, err = c.Call(t.Context(), 4, nil)
	require.ErrorIs(t, err, ErrUnreachable)
	require.NoError(t, c.Close())
	_, err = c.Call(t.Context(), 2, nil)
	require.ErrorIs(t, err, ErrClosed)
}

func TestNobodyListens(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := l.Addr().String()
	require.NoError(t, l.Close())
	c := Dial(Config{Resolve: func(multicast.ProcessID) (string, bool) { return address, true }})
	_, err = c.Call(t.Context(), 2, nil)
	require.ErrorIs(t, err, ErrUnreachable)
	require.NoError(t, c.Close())
}

// TestServerRestart: a whole address disappears, with frames under way, and comes back.
func TestServerRestart(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newTCPWorld(t, nil)
		all := bootAll(t, w, 3)
		for life := uint64(2); life < 6; life++ {
			for range 50 {
				require.NoError(t, all[0].send(2, 1000))
			}
			require.NoError(t, w.servers[2].Close())
			all[1].stop()
			for range 50 {
				require.NoError(t, all[0].send(2, 1000))
			}
			time.Sleep(time.Duration(life) * time.Second)
			w.servers[2] = w.listen(2)
			all[1] = boot(t, w, 2, life)
			time.Sleep(time.Minute)
			synctest.Wait()
			require.Equal(t, life, all[0].out[2].session)
			require.NoError(t, all[0].send(2, 0))
			settle()
			requireInStep(t, all[0], all[1])
		}
		stopAll(all)
		w.close()
	})
}

// An invalid packet breaks the stream. The links to other servers continue.
func TestWildPacketsBreakTheStream(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newTCPWorld(t, nil)
		all := bootAll(t, w, 2)
		client, done := w.grpcTo(w.servers[1], address(2))
		good := &wire.Generation{Incarnation: 1}
		for _, p := range []*wire.Packet{
			{From: 1, To: 2},
			{From: 1, To: 2, Source: good, Target: good, Taken: 1 << 60},
			{From: 1, To: 2, Source: good, Target: good, First: 1 << 60, Frames: [][]byte{{1}}},
			{From: 1, To: 2, Source: good, Target: good, First: 1, Frames: [][]byte{{}}},
		} {
			stream, err := client.Frames(t.Context())
			require.NoError(t, err)
			require.NoError(t, stream.Send(&wire.Batch{Packets: []*wire.Packet{
				{To: 77}, {From: uint32(unknownProcess), To: 2}, p,
			}}))
			require.ErrorContains(t, stream.RecvMsg(new(wire.FramesEnd)), "process 1")
		}
		require.NoError(t, all[0].send(2, 0))
		settle()
		requireInStep(t, all[0], all[1])
		done()
		stopAll(all)
		w.close()
	})
}

// Messages to the server's own processes stay in the server, also where its known name cannot be reached from
// here.
func TestKnownByAnotherAddress(t *testing.T) {
	const known = "localhost:1" // nobody listens there
	s, err := Listen(Config{Address: "127.0.0.1:0", Known: known, Resolve: func(multicast.ProcessID) (string, bool) { return known, true }})
	require.NoError(t, err)
	defer s.Close()
	one, two := s.Endpoint(1), s.Endpoint(2)
	two.Serve(echo)
	reply, err := one.Call(t.Context(), 2, []byte("hello"))
	require.NoError(t, err)
	require.Equal(t, "echo hello", string(reply))
	from, err := one.Links(1)
	require.NoError(t, err)
	to, err := two.Links(1)
	require.NoError(t, err)
	require.NoError(t, receiving(from).Send(2, []byte("start")))
	var into [1]multicast.Frame
	_, err = receiving(to).Receive(t.Context(), into[:])
	require.NoError(t, err)
	require.EqualValues(t, 1, into[0].Peer)
	s.Control(echo)
	reply, err = s.CallAddress(t.Context(), known, []byte("you"))
	require.NoError(t, err)
	require.Equal(t, "echo you", string(reply))
}
