package transport

import (
	"context"
	"crypto/x509"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/globalfs/globalfs/internal/identity"
)

// guest is a connection whose peer the gate has identified.
type guest struct {
	net.Conn
	meter  *meter      // under Conn
	framed bool        // speaks the framed protocol
	shared bool        // through shared memory
	socket *socketEnds // it is a socket between two processes; nil: it is not
	info   *peerInfo   // nil without certificates
	leaf   *x509.Certificate
	cut    func() error // ends the connection under TLS, without waiting for the peer
	expiry *time.Timer  // calls cut when the certificate expires; nil without certificates
	in     *guests      // nil: not entered
	once   sync.Once
}

// Close ends the connection; it may be called several times.
func (c *guest) Close() error {
	c.once.Do(func() {
		c.stopExpiry()
		if c.in != nil {
			c.in.leave(c)
		}
	})
	return c.Conn.Close()
}

// expireBy sets the function that ends the connection at once, without a wait for the peer, and schedules it
// at the expiry of the peer's certificate.
func (c *guest) expireBy(cut func() error) {
	c.cut = cut
	c.expiry = time.AfterFunc(time.Until(c.leaf.NotAfter), func() { _ = cut() })
}

func (c *guest) stopExpiry() {
	if c.expiry != nil {
		c.expiry.Stop()
	}
}

// isServer reports whether the peer has the certificate of a server.
func (c *guest) isServer() bool { return c.info != nil && c.info.identity.Role == identity.Server }

// account returns the account of the peer; nil: the peer is a server or has no certificate.
func (c *guest) account() *account {
	if c.info == nil {
		return nil
	}
	return c.info.account
}

// guests are the open connections that the gate has let in. All connections of one client share an account,
// which limits the resources of the client (account.go); a connection without certificates has none. The
// number of connections is limited, for each client and for all clients together. Connections of servers are
// not limited.
type guests struct {
	limits *limits         // those of the gate
	ended  context.Context // accounts are not removed any more after its end

	mu        sync.Mutex
	clients   int                 // GUARDED_BY mu; the number of connections of clients
	accounts  map[string]*account // GUARDED_BY mu; of clients with connections now or recently
	certified map[*guest]struct{} // GUARDED_BY mu; connections with certificates, which can be revoked
}

// enter counts a connection until it is closed, or refuses it.
func (g *guests) enter(c *guest) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !c.isServer() {
		if err := g.admitClient(c); err != nil {
			return err
		}
	}
	if c.leaf != nil {
		g.certified[c] = struct{}{}
	}
	c.in = g
	return nil
}

// admitClient counts a connection of a client. The caller holds mu.
func (g *guests) admitClient(c *guest) error {
	if g.clients >= g.limits.connections {
		return fmt.Errorf("there are %d connections of clients: no more are accepted", g.clients)
	}
	if c.info != nil {
		name := accountName(c.info)
		a := g.accounts[name]
		if a == nil {
			a = newAccount(c.info.identity.Role, *g.limits)
			g.accounts[name] = a
		}
		if a.conns >= g.limits.perClient {
			return fmt.Errorf("%s has %d connections: no more are accepted", name, a.conns)
		}
		a.conns++
		c.info.account = a
	}
	g.clients++
	return nil
}

// accountName returns the key of an account: clients and admins with equal names have different accounts.
func accountName(info *peerInfo) string { return string(info.identity.Role) + "/" + info.identity.Name }

// leave ends the count of a connection.
func (g *guests) leave(c *guest) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.certified, c)
	if c.isServer() {
		return
	}
	g.clients--
	if a := c.account(); a != nil {
		a.conns--
		g.release(accountName(c.info), a)
	}
}

// accountCheck is the time between two checks of an account without connections.
const accountCheck = time.Second

// release deletes an account without connections if it equals a new one; otherwise it schedules another
// check. The caller holds mu.
func (g *guests) release(name string, a *account) {
	switch {
	case a.conns > 0 || a.leaving || g.ended.Err() != nil:
	case a.isUnused():
		delete(g.accounts, name)
	default:
		a.leaving = true
		time.AfterFunc(accountCheck, func() {
			g.mu.Lock()
			defer g.mu.Unlock()
			a.leaving = false
			g.release(name, a)
		})
	}
}

// matching returns the connections whose certificates have a property.
func (g *guests) matching(property func(*x509.Certificate) bool) (all []*guest) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for c := range g.certified {
		if property(c.leaf) {
			all = append(all, c)
		}
	}
	return all
}
