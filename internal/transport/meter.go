package transport

import (
	"net"
	"sync"
	"sync/atomic"
	"syscall"
)

// drainPiece is the size in bytes of one write of the rest.
const drainPiece = 64 << 10

// meter is a connection under TLS. It counts reads and writes, to distinguish a slow peer from a peer that is
// gone. A write need not wait for the peer.
type meter struct {
	net.Conn
	raw           syscall.RawConn // nil: the connection is no socket
	reads, writes atomic.Uint32
	soon          atomic.Bool // writes do not wait

	mu       sync.Mutex
	rest     []byte        // GUARDED_BY mu; written, and not taken by the socket
	draining chan struct{} // GUARDED_BY mu; closed when a goroutine has written rest; nil: there is none
	failed   error         // GUARDED_BY mu; of that goroutine
}

func newMeter(c net.Conn) *meter {
	m := &meter{Conn: c}
	if s, ok := c.(syscall.Conn); ok {
		m.raw, _ = s.SyscallConn() // without it a goroutine writes
	}
	return m
}

// Read implements net.Conn.
func (m *meter) Read(b []byte) (int, error) {
	n, err := m.Conn.Read(b)
	m.reads.Add(1)
	return n, err
}

// Write implements net.Conn.
func (m *meter) Write(b []byte) (int, error) {
	if m.soon.Load() {
		return m.writeSoon(b)
	}
	if err := m.drained(); err != nil {
		return 0, err
	}
	n, err := m.Conn.Write(b)
	m.writes.Add(1)
	return n, err
}

// isFull reports whether the socket has not taken all that was written.
func (m *meter) isFull() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.draining != nil
}

// drained waits until the socket has taken all that was written.
func (m *meter) drained() error {
	m.mu.Lock()
	draining := m.draining
	m.mu.Unlock()
	if draining != nil {
		<-draining
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.failed
}

// writeSoon writes the bytes that the socket takes at once, and a goroutine writes the rest.
func (m *meter) writeSoon(b []byte) (n int, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.failed != nil {
		return 0, m.failed
	}
	if m.draining == nil && m.raw != nil {
		if n, err = writeAtOnce(m.raw, b); err != nil {
			return n, err
		}
		m.writes.Add(1)
	}
	if n < len(b) {
		m.rest = append(m.rest, b[n:]...)
		if m.draining == nil {
			m.draining = make(chan struct{})
			go m.drain(m.draining)
		}
	}
	return len(b), nil
}

// drain writes the rest. It ends with the connection at the latest.
func (m *meter) drain(done chan struct{}) {
	defer close(done)
	for {
		m.mu.Lock()
		rest := m.rest
		m.rest = nil
		if len(rest) == 0 || m.failed != nil {
			m.draining = nil
			m.mu.Unlock()
			return
		}
		m.mu.Unlock()
		for err := error(nil); len(rest) > 0 && err == nil; {
			var n int
			n, err = m.Conn.Write(rest[:min(len(rest), drainPiece)])
			m.writes.Add(1)
			rest = rest[n:]
			if err != nil {
				m.mu.Lock()
				m.failed = err
				m.mu.Unlock()
			}
		}
	}
}
