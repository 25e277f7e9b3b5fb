package transport

import (
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestABusyConnectionIsNotSlow: in a stream of long messages a body is being read at nearly every tick. The
// connection breaks only if the same body takes too long.
func TestABusyConnectionIsNotSlow(t *testing.T) {
	near, far := net.Pipe()
	defer func() { _ = far.Close() }()
	m := newMeter(near)
	c := newFramedConn(m, m)
	c.keep(nil)
	c.partial.Store(true)
	for range 3 * slowTicks {
		c.bodies.Add(1)
		m.reads.Add(1)
		c.tick()
	}
	require.NoError(t, c.ended.Err())
	for range slowTicks + 1 {
		m.reads.Add(1)
		c.tick()
	}
	select {
	case <-c.ended.Done():
		require.ErrorContains(t, c.why(), "not complete")
	case <-time.After(30 * time.Second):
		t.Fatal("the connection did not break")
	}
}

// TestMessagesKeepTheirOrder: a long message of a sender does not overtake its own waiting short message.
func TestMessagesKeepTheirOrder(t *testing.T) {
	near, far := net.Pipe()
	defer func() { _ = far.Close() }()
	m := newMeter(near)
	c := newFramedConn(m, m)
	message := func(call uint64, length int) []byte {
		return append(appendHead(nil, kindReply, call, length), make([]byte, length)...)
	}
	var sent sync.WaitGroup
	send := func(b []byte) { sent.Go(func() { _ = c.send(c.ended, b, nil) }) }
	queued := func(writers int) func() bool {
		return func() bool {
			c.mu.Lock()
			defer c.mu.Unlock()
			return c.busy && len(c.waiting) == writers
		}
	}
	send(message(1, 1)) // is being written
	require.Eventually(t, queued(0), time.Minute, time.Millisecond)
	send(message(2, 2*smallMessage)) // another sender's, which waits
	require.Eventually(t, queued(1), time.Minute, time.Millisecond)
	require.NoError(t, c.send(c.ended, message(3, 1), nil))
	send(message(4, 2*smallMessage))
	require.Eventually(t, queued(2), time.Minute, time.Millisecond)
	require.NoError(t, c.send(c.ended, message(5, 1), nil))

	reader := newFramedConn(far, newMeter(far))
	var got []uint64
	for range 5 {
		h, err := reader.next()
		require.NoError(t, err)
		require.NoError(t, reader.skip(h))
		got = append(got, h.call)
	}
	sent.Wait()
	require.Less(t, slices.Index(got, 3), slices.Index(got, 4), "%v", got)
}
