package transport

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
)

// openShared opens the listener for peers of this host. Without it they use TCP.
func (g *gate) openShared(cfg *Config) {
	if cfg.sharing == nil || cfg.Credentials == nil {
		return
	}
	listener, name, err := cfg.sharing.listen()
	if err != nil {
		g.log.Warn("peers of this host use TCP: no Unix socket can be opened", "address", g.listener.Addr().String(), "error", err)
		return
	}
	g.shared = &sharedDoor{
		sharing: cfg.sharing, listener: listener, name: name, tls: cfg.Credentials.ServerConfig(sharedProtocol, memoryProtocol),
	}
}

// sharedDoor is the entrance of a gate for peers of this host.
type sharedDoor struct {
	sharing
	listener net.Listener
	name     string
	tls      *tls.Config
}

// identifyShared makes the handshake with a peer of this host, and continues in shared memory, or passes the
// socket on.
func (g *gate) identifyShared(raw net.Conn) (*guest, error) {
	ctx, cancel := context.WithTimeout(g.ctx, g.limits.handshake)
	defer cancel()
	deadline, _ := ctx.Deadline()
	if err := raw.SetDeadline(deadline); err != nil {
		return nil, err
	}
	conn := tls.Server(raw, g.shared.tls)
	if err := conn.HandshakeContext(ctx); err != nil {
		return nil, err
	}
	c, err := guestOf(conn)
	if err != nil {
		return nil, err
	}
	if _, err := conn.Write(introduction(ownUser(), g.shared.name)); err != nil {
		return nil, err
	}
	if conn.ConnectionState().NegotiatedProtocol == memoryProtocol {
		return c, c.identifySocket(raw, conn)
	}
	var one [1]byte
	if _, err := io.ReadFull(conn, one[:]); err != nil {
		return nil, err
	}
	if one[0] != shareGo {
		return nil, fmt.Errorf("the client does not accept shared memory: it sends the byte %#x", one[0])
	}
	memory, err := g.shared.offer(raw, deadline)
	if err != nil {
		return nil, err
	}
	c.meter = newMeter(memory)
	c.Conn, c.framed, c.shared = c.meter, true, true
	c.expireBy(memory.Close)
	return c, nil
}
