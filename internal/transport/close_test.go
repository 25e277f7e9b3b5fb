package transport

import (
	"context"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/test/bubble"
)

// hungConn takes no more bytes once hung is set: a write waits until its deadline, or until the end of the
// connection.
type hungConn struct {
	net.Conn
	hung *atomic.Bool
	once sync.Once
	gone chan struct{}

	mu       sync.Mutex
	deadline *time.Timer
	late     chan struct{} // closed at the first deadline that passes
	expire   sync.Once
}

func newHungConn(c net.Conn, hung *atomic.Bool) *hungConn {
	return &hungConn{Conn: c, hung: hung, gone: make(chan struct{}), late: make(chan struct{})}
}

// Write implements net.Conn.
func (c *hungConn) Write(b []byte) (int, error) {
	if !c.hung.Load() {
		return c.Conn.Write(b)
	}
	select {
	case <-c.gone:
		return 0, net.ErrClosed
	case <-c.late:
		return 0, os.ErrDeadlineExceeded
	}
}

// SetWriteDeadline implements net.Conn.
func (c *hungConn) SetWriteDeadline(at time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.deadline != nil {
		c.deadline.Stop()
	}
	if !at.IsZero() {
		c.deadline = time.AfterFunc(time.Until(at), func() { c.expire.Do(func() { close(c.late) }) })
	}
	return nil
}

// Close implements net.Conn.
func (c *hungConn) Close() error {
	c.once.Do(func() { close(c.gone) })
	return c.Conn.Close()
}

// A server that ends does not wait for a peer that takes nothing of its links.
func TestCloseDoesNotWaitForAHungPeer(t *testing.T) {
	for _, secure := range []bool{false, true} {
		bubble.Test(t, func(t *testing.T) {
			certs := newAuthority(t, "prod")
			credentials := certs.server("n1")
			if !secure {
				credentials = nil
			}
			w := newTCPWorld(t, credentials)
			var hung atomic.Bool
			dial := func(ctx context.Context, address string) (net.Conn, error) {
				c, err := w.pipes.dial(ctx, address)
				if err != nil {
					return nil, err
				}
				return newHungConn(c, &hung), nil
			}
			s, err := Listen(Config{Address: address(7), Credentials: credentials, Resolve: w.resolve, listen: w.pipes.listen, dial: dial})
			require.NoError(t, err)
			w.move(1, address(7))
			inside, friend := boot(t, fortressWorld{s}, 1, 1), boot(t, w, 2, 1)
			require.NoError(t, inside.send(2, 0))
			settle()
			require.NoError(t, inside.send(2, 10))
			settle()
			requireInStep(t, inside, friend)

			hung.Store(true)
			require.NoError(t, inside.send(2, MaxFrame/2))
			synctest.Wait() // the sender writes
			began := time.Now()
			require.NoError(t, s.Close())
			require.Less(t, time.Since(began), quietTime, "it is not the timer that ends the connection")
			inside.kill()
			<-inside.done
			friend.stop()
			w.close()
		})
	}
}
