package transport

import (
	"net"
	"sync"
)

// door is the listener of one gRPC server: it accepts the connections that the gate hands over.
type door struct {
	address net.Addr
	through chan net.Conn
	once    sync.Once
	closed  chan struct{}
}

func newDoor(address net.Addr) *door {
	return &door{address: address, through: make(chan net.Conn), closed: make(chan struct{})}
}

// give hands a connection over, or closes it if the door is closed.
func (d *door) give(c net.Conn) {
	select {
	case d.through <- c:
	case <-d.closed:
		_ = c.Close()
	}
}

// Accept implements net.Listener.
func (d *door) Accept() (net.Conn, error) {
	select {
	case c := <-d.through:
		return c, nil
	case <-d.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (d *door) Close() error {
	d.once.Do(func() { close(d.closed) })
	return nil
}

// Addr implements net.Listener.
func (d *door) Addr() net.Addr { return d.address }
