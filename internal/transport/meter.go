package transport

import (
	"net"
	"sync"
	"sync/atomic"
	"syscall"
)

// drainPiece is the maximum size in bytes of one write.
const drainPiece = 64 << 10

// meter is the connection below TLS. It counts reads and writes: the counts distinguish a slow peer from a
// silent one. While soon is set, a write does not wait for the peer: a goroutine writes the bytes that the
// socket does not take at once.
type meter struct {
	net.Conn
	atOnce        func(b []byte) (int, error) // writes what the connection takes without waiting; nil: unknown
	reads, writes atomic.Uint32
	soon          atomic.Bool // writes do not wait

	mu       sync.Mutex
	unsent   []byte        // GUARDED_BY mu; written, and not taken by the socket
	draining chan struct{} // GUARDED_BY mu; closed when a goroutine has written unsent; nil: none writes it
	failed   error         // GUARDED_BY mu; the error of that goroutine
}

func newMeter(c net.Conn) *meter {
	m := &meter{Conn: c}
	switch c := c.(type) {
	case interface{ TryWrite([]byte) (int, error) }: // package shmconn
		m.atOnce = c.TryWrite
	case syscall.Conn:
		if raw, err := c.SyscallConn(); err == nil { // otherwise a goroutine writes
			m.atOnce = func(b []byte) (int, error) { return writeAtOnce(raw, b) }
		}
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
	return m.writePieces(b)
}

// writePieces writes in pieces, so that writes shows the progress of a slow peer.
func (m *meter) writePieces(b []byte) (n int, err error) {
	for err == nil && n < len(b) {
		var wrote int
		wrote, err = m.Conn.Write(b[n:min(len(b), n+drainPiece)])
		m.writes.Add(1)
		n += wrote
	}
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
	if m.draining == nil && m.atOnce != nil {
		if n, err = m.atOnce(b); err != nil {
			return n, err
		}
		m.writes.Add(1)
	}
	if n < len(b) {
		m.unsent = append(m.unsent, b[n:]...)
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
		rest := m.unsent
		m.unsent = nil
		if len(rest) == 0 || m.failed != nil {
			m.draining = nil
			m.mu.Unlock()
			return
		}
		m.mu.Unlock()
		if _, err := m.writePieces(rest); err != nil {
			m.mu.Lock()
			m.failed = err
			m.mu.Unlock()
		}
	}
}
