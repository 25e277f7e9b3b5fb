package wan

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/topology"
)

// role is the environment variable that selects another role of this test program: a process on a host, or a
// process that dies with a lab.
const role = "GLOBALFS_TEST_WAN"

func TestMain(m *testing.M) {
	var err error
	switch os.Getenv(role) {
	case "":
		os.Exit(m.Run())
	case "namespaces":
		err = printNamespaces()
	case "lab":
		err = keepLab()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// three returns a host in each region of the thesis' deployment.
func three() []Host {
	return []Host{{"oregon", "us-west-2"}, {"virginia", "us-east-1"}, {"ireland", "eu-west-1"}}
}

// apart returns a function with a delay between regions and none inside them.
func apart(delay time.Duration) func(from, to topology.Region) time.Duration {
	return func(from, to topology.Region) time.Duration {
		if from == to {
			return 0
		}
		return delay
	}
}

// start makes a lab, or skips the test if this machine cannot have one.
func start(t testing.TB, config Config) *Lab {
	t.Helper()
	l, err := New(config)
	if errors.Is(err, ErrUnavailable) {
		t.Skip(err)
	}
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.Close()) })
	return l
}

// listen makes a TCP listener on a host and serves each connection in a goroutine.
func listen(t testing.TB, l *Lab, host string, serve func(net.Conn)) string {
	t.Helper()
	var listener net.Listener
	require.NoError(t, l.Inside(host, func() (err error) {
		listener, err = (&net.ListenConfig{}).Listen(t.Context(), "tcp", l.Address(host)+":0")
		return err
	}))
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			go serve(c)
		}
	}()
	return listener.Addr().String()
}

func echo(c net.Conn) {
	_, _ = io.Copy(c, c)
	c.Close()
}

// dial connects with a time limit.
func dial(t testing.TB, l *Lab, host, address string) net.Conn {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	c, err := l.Dial(ctx, host, address)
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	require.NoError(t, c.SetDeadline(time.Now().Add(5*time.Minute)))
	return c
}

// socket makes a UDP socket on a host.
func socket(t testing.TB, l *Lab, host string) *net.UDPConn {
	t.Helper()
	var c *net.UDPConn
	require.NoError(t, l.Inside(host, func() (err error) {
		c, err = net.ListenUDP("udp4", &net.UDPAddr{IP: net.ParseIP(l.Address(host))})
		return err
	}))
	t.Cleanup(func() { c.Close() })
	require.NoError(t, c.SetReadBuffer(4<<20))
	require.NoError(t, c.SetDeadline(time.Now().Add(5*time.Minute)))
	return c
}

// reflect answers each packet to a host until the test ends.
func reflect(t testing.TB, l *Lab, host string) *net.UDPAddr {
	c := socket(t, l, host)
	go func() {
		for b := make([]byte, 2048); ; {
			n, from, err := c.ReadFromUDP(b)
			if errors.Is(err, net.ErrClosed) || errors.Is(err, os.ErrDeadlineExceeded) {
				return
			}
			if err == nil {
				_, _ = c.WriteToUDP(b[:n], from)
			}
		}
	}()
	return c.LocalAddr().(*net.UDPAddr)
}

// ask measures one round trip.
func ask(t testing.TB, c *net.UDPConn, to *net.UDPAddr) time.Duration {
	b := make([]byte, 64)
	began := time.Now()
	_, err := c.WriteToUDP(b, to)
	require.NoError(t, err)
	_, err = c.Read(b)
	require.NoError(t, err)
	return time.Since(began)
}

// traffic returns the traffic of one link.
func traffic(l *Lab, from, to string) Traffic {
	for _, link := range l.Stats().Links {
		if link.From == from && link.To == to {
			return link
		}
	}
	return Traffic{}
}
