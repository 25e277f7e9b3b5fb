package transport

import (
	"bytes"
	"io"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// onTCP returns both ends of a connection.
func onTCP(t *testing.T) (near, far net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	near, err = net.Dial("tcp", l.Addr().String())
	require.NoError(t, err)
	far, err = l.Accept()
	require.NoError(t, err)
	t.Cleanup(func() { _, _ = near.Close(), far.Close() })
	require.NoError(t, near.(*net.TCPConn).SetWriteBuffer(64<<10)) // the kernel does not make them larger
	require.NoError(t, far.(*net.TCPConn).SetReadBuffer(64<<10))
	return near, far
}

// Bytes that a peer does not take are written later, before all following bytes.
func TestWritesNeedNotWait(t *testing.T) {
	pipe, other := net.Pipe()
	t.Cleanup(func() { _, _ = pipe.Close(), other.Close() })
	near, far := onTCP(t)
	for name, ends := range map[string][2]net.Conn{"socket": {near, far}, "no socket": {pipe, other}} {
		t.Run(name, func(t *testing.T) {
			m := newMeter(ends[0])
			var want []byte
			write := func(size int, soon bool) {
				b := bytes.Repeat([]byte{byte(len(want) >> 10)}, size)
				want = append(want, b...)
				m.soon.Store(soon)
				n, err := m.Write(b)
				require.NoError(t, err)
				require.Equal(t, size, n)
			}
			for range 64 {
				write(256<<10, true) // more than the socket takes
			}
			require.True(t, m.isFull())
			got := make([]byte, len(want)+1<<20)
			read := make(chan error, 1)
			go func() {
				_, err := io.ReadFull(ends[1], got)
				read <- err
			}()
			write(1<<20, false) // waits for what was written before
			require.False(t, m.isFull())
			require.NoError(t, <-read)
			require.True(t, bytes.Equal(want, got), "nothing is lost, and all in its order")
		})
	}
}

// The error of a delayed write is returned by the next write.
func TestWritesFailLater(t *testing.T) {
	near, _ := onTCP(t)
	m := newMeter(near)
	m.soon.Store(true)
	for !m.isFull() {
		_, err := m.Write(make([]byte, 1<<20))
		require.NoError(t, err)
	}
	require.NoError(t, near.Close())
	m.soon.Store(false)
	_, err := m.Write([]byte{1})
	require.ErrorIs(t, err, net.ErrClosed)
	m.soon.Store(true)
	_, err = m.Write([]byte{1})
	require.ErrorIs(t, err, net.ErrClosed)
}

// A connection ends if its peer takes nothing, even if no writer waits.
func TestStuckConnectionEndsWithoutAWriter(t *testing.T) {
	near, far := net.Pipe() // takes nothing unless somebody reads
	t.Cleanup(func() { _, _ = near.Close(), far.Close() })
	m := newMeter(near)
	c := newFramedConn(m, m)
	c.keep(nil)
	require.NoError(t, c.sendSoon(make([]byte, 1<<20)))
	require.True(t, m.isFull())
	for range 10 {
		m.reads.Add(1) // the peer sends something
		c.tick()
	}
	select {
	case <-c.ended.Done():
		require.ErrorContains(t, c.why(), "taken nothing")
	case <-time.After(30 * time.Second):
		t.Fatal("the connection did not end")
	}
	require.Error(t, c.sendSoon([]byte{1}))
}
